package subprocess

import (
	"os"

	"golang.org/x/sys/unix"
)

// SharedMemory makes memory for two processes: a file that has no name, and is gone with the last process that has it open, also when that is
// killed. It returns nil where the kernel refuses it.
func SharedMemory() *os.File {
	fd, err := unix.MemfdCreate("raysys", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "shared memory")
}
