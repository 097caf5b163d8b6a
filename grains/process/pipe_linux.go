package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is what a pipe holds by itself, and widePipe what the kernel allows to each user.
const (
	pipeSize = 64 << 10
	widePipe = 1 << 20
)

// widen has a pipe hold more, so that a large frame takes fewer turns of the two processes. The kernel may refuse it to a user with many pipes.
func widen(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
	}
}
