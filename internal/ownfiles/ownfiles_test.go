//go:build unix

package ownfiles_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/raysys/raysys/internal/ownfiles"
)

// TestOpen: a link is not followed, neither to a file nor to where there is none, and a pipe does not hold the caller up.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, link, dangling, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, []byte("mine"), 0o600), os.Symlink(file, link), os.Symlink(filepath.Join(dir, "new"), dangling), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{file: "", link: "is a link", dangling: "is a link", pipe: "is no regular file", dir: "is no regular file", filepath.Join(dir, "none"): ""} {
		f, err := ownfiles.Open(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			f.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made behind a link: %v", err)
	}
}

// TestFolder: a link, a file and a folder that others may write to are refused.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	own, link, file := filepath.Join(dir, "own"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(own, 0o700), os.Symlink(own, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{own: "", link: "is a link", file: "is no folder", filepath.Join(dir, "none"): "no such file"} {
		if err := ownfiles.Folder(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if os.Getuid() == 0 { // else nobody can be given it
		if err := os.Chown(own, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := ownfiles.Folder(own); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Error(err)
		}
	}
	for mode, want := range map[fs.FileMode]bool{0o700: true, 0o755: true, 0o775: true, 0o757: false, 0o777 | fs.ModeSticky: false} {
		if err := os.Chmod(own, mode); err != nil {
			t.Fatal(err)
		}
		if err := ownfiles.Unshared(own, 0o002); (err == nil) != want {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// TestTemp: what a process left that was killed goes with the next; what lives, what has no lock file, and where a link leads, stays.
func TestTemp(t *testing.T) {
	if os.Getenv("OWNFILES_CHILD") != "" {
		path, _, err := ownfiles.Temp("raysys-x-")
		fmt.Println(path, err)
		io.Copy(io.Discard, os.Stdin) // until it is killed
		return
	}
	base, home := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", base)
	killed := child(t)
	one, remove, err := ownfiles.Temp("raysys-x-")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(base, "raysys-x-dead"), filepath.Join(base, "other-dead"), home} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "below"), 0o700), os.WriteFile(filepath.Join(dir, "raysys.lock"), nil, 0o600), os.WriteFile(filepath.Join(dir, "below", "file"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(base, "raysys-x-backup"), 0o700), os.Symlink(home, filepath.Join(base, "raysys-x-link"))); err != nil {
		t.Fatal(err)
	}
	two, removeTwo, err := ownfiles.Temp("raysys-x-")
	if err != nil || one == two {
		t.Fatalf("%s, %s, %v", one, two, err)
	}
	for _, goes := range []string{filepath.Join(base, "raysys-x-dead"), killed} {
		if _, err := os.Lstat(goes); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what a dead process left is there: %s, %v", goes, err)
		}
	}
	for _, stays := range []string{one, two, filepath.Join(base, "other-dead", "below", "file"), filepath.Join(base, "raysys-x-backup"), filepath.Join(base, "raysys-x-link"), filepath.Join(home, "below", "file"), filepath.Join(home, "raysys.lock")} {
		if _, err := os.Lstat(stays); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(remove(), removeTwo()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(one); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is not removed: %v", err)
	}
}

// child runs TestTemp in another process, kills that, and returns the folder that it made.
func child(t *testing.T) string {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestTemp$")
	c.Env = append(os.Environ(), "OWNFILES_CHILD=yes")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	path, said, _ := strings.Cut(strings.TrimSpace(line), " ")
	if _, there := os.Lstat(path); err != nil || said != "<nil>" || there != nil {
		t.Fatalf("%q, %v, %v", line, err, there)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	return path
}
