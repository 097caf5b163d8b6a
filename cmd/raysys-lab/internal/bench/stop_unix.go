//go:build unix

package bench

import (
	"fmt"
	"syscall"
)

// stop makes a child silent without its connections noticing.
func (c *process) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop child: %w", err)
	}
	c.still = true
	return nil
}
