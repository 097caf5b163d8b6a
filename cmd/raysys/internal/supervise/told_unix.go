//go:build unix

package supervise

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// ear is the supervisor's end of the pipe. It is read after the exit: the messages of a program fit into the pipe many times.
type ear struct{ read, write *os.File }

// listen gives the program its end.
func listen(cmd *exec.Cmd) (e ear, err error) {
	if e.read, e.write, err = os.Pipe(); err != nil {
		return e, fmt.Errorf("make pipe for the program's own words: %w", err)
	}
	info, err := e.write.Stat()
	if err != nil {
		e.close()
		return e, fmt.Errorf("look at the pipe for the program's own words: %w", err)
	}
	fd := 3 + len(cmd.ExtraFiles)
	cmd.ExtraFiles = append(cmd.ExtraFiles, e.write)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d:%d", SupervisorVariable, fd, info.Sys().(*syscall.Stat_t).Ino))
	return e, nil
}

// started closes the end that the program has now.
func (e ear) started() { e.write.Close() }

// heard returns what the program said last. It does not wait for other processes that may still hold the program's
// end.
func (e ear) heard(Exit) Told {
	conn, err := e.read.SyscallConn()
	if err != nil {
		return ""
	}
	var said []byte
	_ = conn.Read(func(fd uintptr) bool {
		buf := make([]byte, maxTold)
		for {
			n, err := syscall.Read(int(fd), buf)
			if err == syscall.EINTR {
				continue
			}
			if n <= 0 || err != nil {
				return true
			}
			said = append(said, buf[:n]...)
			said = said[max(len(said)-maxTold, 0):]
		}
	})
	lines := bytes.Split(bytes.TrimRight(said, "\n"), []byte("\n"))
	return Told(lines[len(lines)-1])
}

func (e ear) close() {
	e.read.Close()
	e.write.Close() // a second time is an error without effect
}
