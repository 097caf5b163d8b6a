package worklog

import (
	"io/fs"
	"os"
	"testing"
	"time"
)

// TestSlowFile: while the file of what the node wrote does not answer, as on a disk that hangs, work writes its lines.
func TestSlowFile(t *testing.T) {
	opened, answers := make(chan struct{}), make(chan struct{})
	before := openFile
	defer func() { openFile = before }()
	openFile = func(string, int, fs.FileMode) (*os.File, error) {
		close(opened)
		<-answers
		return nil, fs.ErrNotExist
	}
	b := newBench(t.TempDir())
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
	goes("the question does not open the file", opened)
	go func() {
		b.Logger(work(7)).Info("a line")
		close(wrote)
	}()
	goes("a line waits for the file", wrote)
	close(answers)
	goes("the question is not taken", asked)
	b.Close()
	b.runs.Wait()
}
