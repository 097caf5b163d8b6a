package bench

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// shareable copies data into a file in memory, which other processes find at path until done.
func shareable(data []byte) (path string, done func() error, err error) {
	fd, err := unix.MemfdCreate("raysys-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return "", nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "raysys-bench")
	if _, err := f.Write(data); err != nil {
		return "", nil, errors.Join(fmt.Errorf("fill a file in memory: %w", err), f.Close())
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), f.Close, nil
}

// mapFile maps a file to be read, until done.
func mapFile(path string, n int) (b []byte, done func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if b, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return b, func() error { return unix.Munmap(b) }, nil
}
