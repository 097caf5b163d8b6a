//go:build unix

package childserver

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	"github.com/raysys/raysys/internal/subprocess"
)

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate asks the server to end in good order; Exited tells when it has.
func (p *Process) Terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// Stop ends the server in good order and waits until it is gone.
func (p *Process) Stop() error {
	if err := p.Terminate(); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Pause stops the server's process: connections stay open, nothing is answered once it returns.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !subprocess.Stopped(p.cmd.Process.Pid); {
		select {
		case <-tick.C:
		case <-limit:
			return errors.New("the process does not stop")
		}
	}
	return nil
}

// Resume lets a paused server go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
