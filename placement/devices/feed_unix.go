//go:build unix

package devices

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// pipeOf opens what the variable names, a descriptor and the inode of the pipe that it must be. Nil when there is none.
func pipeOf(variable string) *os.File {
	number, inode, _ := strings.Cut(variable, ":")
	fd, err := strconv.Atoi(number)
	ino, bad := strconv.ParseUint(inode, 10, 64)
	if err != nil || bad != nil || fd <= 2 {
		return nil
	}
	var s syscall.Stat_t
	if syscall.Fstat(fd, &s) != nil || s.Mode&syscall.S_IFMT != syscall.S_IFIFO || s.Ino != ino {
		return nil
	}
	syscall.CloseOnExec(fd)
	if syscall.SetNonblock(fd, true) != nil { // so that a deadline and Close end a read
		return nil
	}
	return os.NewFile(uintptr(fd), "devices")
}
