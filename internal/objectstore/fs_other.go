//go:build !unix

package objectstore

import (
	"io"
	"math"
)

// Space is not asked for: give Config.Disk.
func (disk) Space(string) (free, all int64, err error) {
	return math.MaxInt64 / 2, math.MaxInt64 / 2, nil
}

// SyncDir does nothing: a directory is no file here.
func (disk) SyncDir(string) error { return nil }

// Lock relies on the file being held open, which keeps it from being removed.
func (disk) Lock(name string, mayMake bool) (io.Closer, error) { return lockFile(name, mayMake) }

// ours has nothing to ask: the temporary directory is the user's own.
func ours(string) error { return nil }
