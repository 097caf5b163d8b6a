//go:build unix

package inherited_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/raysys/raysys/internal/inherited"
)

// TestPipe: a descriptor is taken only where it is a pipe, and the very one that is named.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	info, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	fd, inode := int(r.Fd()), info.Sys().(*syscall.Stat_t).Ino
	if got, ok := inherited.Pipe(fmt.Sprintf("%d:%d", fd, inode)); !ok || got != fd {
		t.Errorf("the pipe at %d is found at %d, %v", fd, got, ok)
	}
	file, err := os.Open("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		t.Fatal(err)
	}
	for what, value := range map[string]string{
		"nothing": "", "no number": "x:1", "no inode": fmt.Sprint(fd), "another pipe": fmt.Sprintf("%d:%d", fd, inode+1), "standard input": fmt.Sprintf("0:%d", inode),
		"no descriptor": fmt.Sprintf("99999:%d", inode), "a file": fmt.Sprintf("%d:%d", file.Fd(), info.Sys().(*syscall.Stat_t).Ino), "a negative one": "-" + strings.Repeat("1", 3) + ":1",
	} {
		if got, ok := inherited.Pipe(value); ok {
			t.Errorf("%s (%q) is taken for the pipe %d", what, value, got)
		}
	}
}
