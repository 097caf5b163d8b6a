package objectstore

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Reserve allocates the blocks, so that a full disk is noticed before anything is written.
func (f diskFile) Reserve(size int64) error {
	for size > 0 {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil // the writes will tell
		default:
			return err
		}
	}
	return nil
}
