//go:build unix

package inherited

import (
	"strconv"
	"strings"
	"syscall"
)

// Pipe is the descriptor of the pipe that the value of a variable names. ok is false where this process has no such pipe. Processes
// that this one starts do not inherit it.
func Pipe(value string) (fd int, ok bool) {
	number, inode, _ := strings.Cut(value, ":")
	fd, err := strconv.Atoi(number)
	ino, bad := strconv.ParseUint(inode, 10, 64)
	if err != nil || bad != nil || fd <= 2 {
		return 0, false
	}
	var s syscall.Stat_t
	if syscall.Fstat(fd, &s) != nil || s.Mode&syscall.S_IFMT != syscall.S_IFIFO || s.Ino != ino {
		return 0, false
	}
	syscall.CloseOnExec(fd)
	return fd, true
}
