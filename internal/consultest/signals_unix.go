//go:build unix

package consultest

import (
	"errors"
	"syscall"
	"time"
)

// Stop ends the server in good order and waits until it is gone.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
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
	// The sender of a signal does not wait until it has arrived.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !stopped(s.cmd.Process.Pid); {
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
