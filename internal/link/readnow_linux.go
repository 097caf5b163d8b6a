//go:build !race

package link

import (
	"syscall"
	"unsafe"
)

// readNow reads from a descriptor that does not block into b, which is not empty.
func readNow(fd uintptr, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
