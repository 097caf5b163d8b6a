//go:build unix

package system

import (
	"fmt"
	"io"
	"syscall"

	"github.com/raysys/raysys/internal/inherited"
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

// supervisorOf is the pipe that RAYSYS_SUPERVISOR names. Nil when there is no supervisor.
func supervisorOf(variable string) io.Writer {
	fd, ok := inherited.Pipe(variable)
	if !ok {
		return nil
	}
	return pipe(fd)
}
