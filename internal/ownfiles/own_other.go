//go:build !unix

package ownfiles

import (
	"io"
	"io/fs"
)

const noFollow = 0

// Lock relies on the file being held open, which keeps it from being removed.
func Lock(name string, mayMake bool) (io.Closer, error) { return lockFile(name, mayMake) }

// Folder has nothing to ask: a user's folders are the user's own.
func Folder(string) error { return nil }

// Unshared has nothing to ask either.
func Unshared(string, fs.FileMode) error { return nil }
