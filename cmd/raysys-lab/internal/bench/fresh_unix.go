//go:build unix

package bench

import (
	"fmt"

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
