//go:build unix

package objectstore

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func (disk) Space(dir string) (free, all int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("ask for the space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

func (disk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Lock is a flock, which the system lets go of when the process ends, however it ends.
func (disk) Lock(name string, mayMake bool) (io.Closer, error) {
	f, err := lockFile(name, mayMake)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// A process that sweeps may have removed the file between the two calls: the lock of a file without a name
	// excludes no other process.
	held, err := f.Stat()
	if err == nil {
		var now os.FileInfo
		if now, err = os.Stat(name); err == nil && !os.SameFile(held, now) {
			err = ErrLocked
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ours refuses a link, and a directory that another user has made, in a place where every user may make one.
func ours(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Getuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s is a link, belongs to another user, or others may write to it: remove it, or give a directory for spill files", dir)
	}
	return nil
}
