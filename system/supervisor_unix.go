//go:build unix

package system

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
)

// pipe is the descriptor of a pipe to the supervisor of this process. It is no os.File: the collector would close the
// descriptor with the first Config that is dropped.
type pipe int

// Write implements io.Writer.
func (p pipe) Write(b []byte) (int, error) {
	n, err := syscall.Write(int(p), b)
	if err != nil {
		return 0, fmt.Errorf("write to descriptor %d: %w", int(p), err)
	}
	return n, nil
}

// supervisorOf opens what RAYSYS_SUPERVISOR names, a descriptor and the inode of the pipe that it must be: a process
// that inherited the variable but not the pipe has something else there. Nil when there is no supervisor.
func supervisorOf(variable string) io.Writer {
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
	return pipe(fd)
}
