//go:build unix

package objectstore

import (
	"os"
	"syscall"
	"testing"
)

// Identity returns what tells a file from all others.
func Identity(t *testing.T, f *os.File) (device, inode uint64) {
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	sys := st.Sys().(*syscall.Stat_t)
	return uint64(sys.Dev), sys.Ino
}
