package ownfiles

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// lockName is the lock file of a folder that Temp has made. A folder without one is not Temp's, whatever its name.
const lockName = "raysys.lock"

// Temp makes a folder below os.TempDir whose name begins with prefix, which remove removes. Folders of the same prefix that this user's processes
// could not remove, because they were killed, go now.
func Temp(prefix string) (path string, remove func() error, err error) {
	base := os.TempDir()
	removeDead(base, prefix)
	for {
		if path, err = os.MkdirTemp(base, prefix); err != nil {
			return "", nil, err
		}
		lock, err := Lock(filepath.Join(path, lockName), true)
		switch {
		case err == nil:
			return path, func() error {
				defer lock.Close()
				return os.RemoveAll(path)
			}, nil
		case !errors.Is(err, ErrLocked) && !errors.Is(err, fs.ErrNotExist): // else another process took it for a dead one's
			return "", nil, errors.Join(err, os.RemoveAll(path))
		}
	}
}

func removeDead(base, prefix string) {
	entries, _ := os.ReadDir(base) // what cannot be listed stays
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if !strings.HasPrefix(e.Name(), prefix) || Folder(dir) != nil {
			continue
		}
		lock, err := Lock(filepath.Join(dir, lockName), false)
		if err != nil {
			continue // its process lives, or it is of another program
		}
		// Where the lock file is held open, its process lives: there it cannot be removed.
		if os.Remove(filepath.Join(dir, lockName)) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}
