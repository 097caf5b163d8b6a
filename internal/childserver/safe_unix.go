//go:build unix

package childserver

import (
	"io/fs"
	"os"
	"syscall"
)

// safe reports whether this user or root owns a file, and not everybody may write to it: it is about to be run.
func safe(i fs.FileInfo) bool {
	st, ok := i.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Getuid() || st.Uid == 0) && i.Mode().Perm()&0o002 == 0
}
