package ownfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrLocked is returned by Lock while another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// Open is os.OpenFile for a regular file. A link by that name is not followed: it may lead to a file of another program.
func Open(name string, flag int, mode fs.FileMode) (*os.File, error) {
	// Opening a pipe would wait for its other end.
	switch i, err := os.Lstat(name); {
	case err == nil && i.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a link, which is not followed: remove it, or give another folder", name)
	case err == nil && !i.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: remove it, or give another folder", name)
	}
	return os.OpenFile(name, flag|noFollow, mode) // a link that was put there since is an error too
}

// lockFile opens a lock file.
func lockFile(name string, mayMake bool) (*os.File, error) {
	flag := os.O_RDWR
	if mayMake {
		flag |= os.O_CREATE
	}
	return Open(name, flag, 0o600)
}
