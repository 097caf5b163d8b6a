//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestToFileKeepsWhatIsNoFile: a pipe, and so /dev/null, is written to, and none takes its place.
func TestToFileKeepsWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(pipe, os.O_RDWR, 0) // else each end waits for the other to be opened
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = toFile(pipe, nil, func(w io.Writer) error {
		_, err := io.WriteString(w, "heap")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if i, err := os.Lstat(pipe); err != nil || i.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("the pipe is %v now, %v", i.Mode(), err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "heap" {
		t.Errorf("it has %q, %v", got, err)
	}
}
