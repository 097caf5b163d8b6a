package worklog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSlowFile: while the file of what the node wrote does not answer, as on a disk that hangs, work writes its lines.
func TestSlowFile(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "n.log") // to open it waits for who writes
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(folder)
	asked, wrote := make(chan struct{}), make(chan struct{})
	go func() {
		b.ask(Question{})
		close(asked)
	}()
	goes := func(what string, c chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(time.Minute): // of a busy machine; nothing waits for it where all goes well
			t.Error(what)
		}
	}
	end, err := -1, error(unix.ENXIO)
	for errors.Is(err, unix.ENXIO) { // until the question has opened the pipe, of which it now reads
		end, err = unix.Open(pipe, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		runtime.Gosched()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		b.Logger(work(7)).Info("a line")
		close(wrote)
	}()
	goes("a line waits for the file", wrote)
	if err := errors.Join(os.Remove(pipe), unix.Close(end)); err != nil { // the file answers, and is gone
		t.Fatal(err)
	}
	goes("the question is not taken", asked)
	b.Close()
	b.runs.Wait()
}
