package subprocess

import (
	"os"

	"golang.org/x/sys/unix"
)

// widePipe is what the kernel lets a pipe of any user hold.
const widePipe = 1 << 20

// WidenPipe has a pipe hold more than the usual 64 KiB, so that a large message takes fewer turns of the two processes. The kernel may refuse it to
// a user with many pipes: then the pipe stays as it is.
func WidenPipe(f *os.File) {
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe) })
	}
}
