//go:build unix

package ownfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const noFollow = unix.O_NOFOLLOW

// Lock holds the lock file name until it is closed or the process ends. It does not wait: ErrLocked. Where there is no such file it makes one,
// or returns fs.ErrNotExist unless it may.
func Lock(name string, mayMake bool) (io.Closer, error) {
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
		if now, err = os.Lstat(name); err == nil && !os.SameFile(held, now) {
			err = ErrLocked
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Folder refuses what is no folder, a link to one, and a folder of another user.
func Folder(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return fmt.Errorf("%s is a link, which is not followed: remove it, or give another folder", dir)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is no folder: remove it, or give another folder", dir)
	case int(st.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to user %d, and this process to user %d: remove it, or give another folder", dir, st.Uid, os.Getuid())
	}
	return nil
}

// Unshared refuses a folder with one of these permissions: whoever may write to it could put a file or a link in the place of one of ours.
func Unshared(dir string, others fs.FileMode) error {
	i, err := os.Stat(dir)
	if err == nil && i.Mode().Perm()&others != 0 {
		err = fmt.Errorf("others may write to %s: take that away (chmod go-w %[1]s), or give another folder, such as a new one below it", dir)
	}
	return err
}
