package childserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/raysys/raysys/internal/subprocess"
)

// patience bounds how long a server may take to serve, on a machine that has other work.
const patience = 60 * time.Second

// Process is a server's process, and after Kill or Stop the one that Launch starts in its place. It does not outlive this
// process. Its methods are for one goroutine, but for Exited.
type Process struct {
	Program  string
	Args     []string
	Env      []string // nil: that of this process
	Dir      string   // it runs in
	LogPath  string   // its output is appended to
	OwnGroup bool     // it is in a group of its own, so that a signal of the terminal does not reach it

	cmd    *exec.Cmd
	exited <-chan struct{} // closed when cmd ended
}

// Launch starts the process.
func (p *Process) Launch() error {
	log, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.Program, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	cmd.Stdout, cmd.Stderr = log, log
	if p.OwnGroup {
		ownGroup(cmd)
	}
	exited, err := subprocess.Start(cmd)
	if err != nil {
		return err
	}
	p.cmd, p.exited = cmd, exited
	return nil
}

// Await waits until serves returns nil, and fails when the process ends before that, or ctx. Nothing tells when a server
// serves, so it is asked again and again.
func (p *Process) Await(ctx context.Context, serves func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it does not serve after %v", patience))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := serves(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("it ended: %s", p.Log())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %s", context.Cause(ctx), err, p.Log())
		}
	}
}

// Log returns the end of the process's output.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.LogPath)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-4096):]))
}

// PID is the id of the last process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process of this moment has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// State is how the last process ended; nil while it runs.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Runs reports whether the process was launched and has not ended.
func (p *Process) Runs() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Kill ends the process at once, as a power cut would, and waits until it is gone.
func (p *Process) Kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	<-p.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// FreePorts returns n ports of loopback that are free now. Another process may take one before the server does: then the
// server ends with "address already in use".
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are open together, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
