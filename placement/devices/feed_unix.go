//go:build unix

package devices

import (
	"os"
	"syscall"

	"github.com/raysys/raysys/internal/inherited"
)

// pipeOf opens the pipe that the variable names. Nil when there is none.
func pipeOf(variable string) *os.File {
	fd, ok := inherited.Pipe(variable)
	if !ok || syscall.SetNonblock(fd, true) != nil { // so that a deadline and Close end a read
		return nil
	}
	return os.NewFile(uintptr(fd), "devices")
}
