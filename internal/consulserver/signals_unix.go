//go:build unix

package consulserver

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	"github.com/raysys/raysys/internal/subprocess"
)

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate asks the server to end in good order; Exited tells when it has.
func (s *Server) Terminate() error { return s.cmd.Process.Signal(syscall.SIGTERM) }

// Stop ends the server in good order and waits until it is gone.
func (s *Server) Stop() error {
	if err := s.Terminate(); err != nil {
		return err
	}
	<-s.exited
	return nil
}

// Pause stops the server's process: connections stay open, nothing is answered once it returns.
func (s *Server) Pause() error {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !subprocess.Stopped(s.cmd.Process.Pid); {
		select {
		case <-tick.C:
		case <-limit:
			return errors.New("pause Consul: its process does not stop")
		}
	}
	return nil
}

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }
