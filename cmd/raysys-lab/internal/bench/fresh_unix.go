//go:build unix

package bench

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// fresh is memory that the kernel has not given out yet.
func fresh(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	return b, nil
}

// giveBack returns memory of fresh.
func giveBack(b []byte) error { return unix.Munmap(b) }

// stop makes a child silent without its connections noticing.
func (c *process) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop child: %w", err)
	}
	c.still = true
	return nil
}
