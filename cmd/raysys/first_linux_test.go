package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/raysys/raysys/cmd/internal/clitest"
	"github.com/raysys/raysys/internal/eventually"
)

// childrenOf are the children of a process, by id, with their states: Z is a zombie.
func childrenOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := bytes.Cut(b, []byte(") ")) // behind the program's name
		if f := strings.Fields(string(after)); len(f) > 1 && f[1] == fmt.Sprint(pid) {
			children[filepath.Base(filepath.Dir(file))] = f[0]
		}
	}
	return children
}

// TestProcessOne: as process 1 of a container, raysys node keeps no zombies of its program's orphans, hands signals on and ends
// as it would elsewhere.
func TestProcessOne(t *testing.T) {
	dir := t.TempDir()
	app := filepath.Join(dir, "app")
	// The subshell ends before what it started, which then belongs to process 1.
	script := "#!/bin/sh\ntrap 'exit 0' TERM\n(sh -c 'sleep 0.1; echo $$ > " + dir + "/orphan' &)\nwhile :; do sleep 0.05; done\n"
	if err := os.WriteFile(app, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var talk bytes.Buffer
	cmd := clitest.Cmd(t, []string{"node", "--app", app, "--name", "a", "--consul", "127.0.0.1:1"}, nil)
	cmd.Stderr = &talk
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("this host gives no process id 1: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	eventually.Holds(t, patience, "the orphan has ended", func() bool {
		_, err := os.Stat(filepath.Join(dir, "orphan"))
		return err == nil
	})
	eventually.Holds(t, patience, "process 1 has one child, the node, and it lives", func() bool {
		children := childrenOf(t, cmd.Process.Pid)
		for _, state := range children {
			if state == "Z" {
				return false
			}
		}
		return len(children) == 1
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, talk.String())
	}
}
