//go:build unix

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// mouth is the supervisor's end of a Feed's pipe.
type mouth struct {
	feed        *Feed
	read, write *os.File
}

// speak gives the program its end. Without a Feed there is none.
func speak(f *Feed, cmd *exec.Cmd) (m mouth, err error) {
	if f == nil {
		return m, nil
	}
	m.feed = f
	if m.read, m.write, err = os.Pipe(); err != nil {
		return m, fmt.Errorf("make pipe for what the program hears: %w", err)
	}
	info, err := m.read.Stat()
	if err != nil {
		m.started()
		m.close()
		return m, fmt.Errorf("look at the pipe for what the program hears: %w", err)
	}
	fd := 3 + len(cmd.ExtraFiles)
	cmd.ExtraFiles = append(cmd.ExtraFiles, m.read)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d:%d", f.variable, fd, info.Sys().(*syscall.Stat_t).Ino))
	return m, nil
}

// started closes the end that the program has now.
func (m mouth) started() {
	if m.feed != nil {
		m.read.Close()
	}
}

// run writes lines until ended is closed or the program reads no more. A write to a full pipe ends with close.
func (m mouth) run(ended <-chan struct{}) {
	if m.feed == nil {
		return
	}
	for {
		line, changed := m.feed.latest()
		if _, err := m.write.Write(line); err != nil {
			return
		}
		select {
		case <-changed:
		case <-ended:
			return
		}
	}
}

func (m mouth) close() {
	if m.feed != nil {
		m.write.Close()
	}
}
