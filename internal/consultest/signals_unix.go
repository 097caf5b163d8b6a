//go:build unix

package consultest

import "syscall"

// Stop ends the server in good order and waits until it is gone.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-s.exited
	return nil
}

// Pause stops the server's process: connections stay open, nothing is answered.
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }
