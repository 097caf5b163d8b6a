package subprocess_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/internal/subprocess"
)

// role says what this binary does when a test started it: "sit" waits for the end of its input, "parent" starts one that
// sits, tells its id and waits, and "fail" ends with 3.
const role = "RAYSYS_SUBPROCESS_ROLE"

// limit bounds what a busy machine takes.
const limit = 30 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "sit":
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "tree": // a process in a session of its own, which has another one
		next := again("leaf")
		if os.Getenv("DEPTH") == "" {
			next = again("tree")
			next.Env = append(next.Env, "DEPTH=1")
		}
		next.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		next.Stdout = os.Stdout
		if err := next.Start(); err != nil {
			panic(err)
		}
		fmt.Println(next.Process.Pid)
		<-time.After(time.Hour)
	case "leaf":
		<-time.After(time.Hour)
	case "fail":
		os.Exit(3)
	case "parent":
		r, w, err := os.Pipe() // whose end is this process's
		if err != nil {
			panic(err)
		}
		cmd := again("sit")
		cmd.Stdin = r
		if _, err := subprocess.Start(cmd); err != nil {
			panic(err)
		}
		fmt.Println(cmd.Process.Pid)
		_, _ = io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(w)
	default:
		goleak.VerifyTestMain(m)
	}
}

func again(what string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+what)
	return cmd
}

func TestStart(t *testing.T) {
	cmd := again("fail")
	ended, err := subprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	if c := cmd.ProcessState.ExitCode(); c != 3 {
		t.Errorf("exit code %d, want 3", c)
	}
	if _, err := subprocess.Start(exec.Command("/nonexistent/program")); err == nil {
		t.Error("a program that is not there was started")
	}
}

// TestEndsWithItsParent: a child does not outlive a parent that was killed, though it is stopped and cannot see that its
// input has ended.
func TestEndsWithItsParent(t *testing.T) {
	parent := again("parent")
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := subprocess.Start(parent)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, limit, "the child is stopped", func() bool { return subprocess.Stopped(pid) })
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	eventually.Holds(t, limit, "the child of a killed parent is gone", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") // nobody may be there to reap it
	})
}

// TestKillTree: what a process has started ends with it, in whichever session.
func TestKillTree(t *testing.T) {
	cmd := again("tree")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	subprocess.InGroup(cmd)
	ended, err := subprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var pids [2]int
	if _, err := fmt.Fscan(out, &pids[0], &pids[1]); err != nil {
		t.Fatal(err)
	}
	slices.Sort(pids[:])
	for name, of := range map[string]func(int) []int{"proc": subprocess.Children(), "ps": subprocess.Listed()} {
		first := of(cmd.Process.Pid)
		if len(first) != 1 || !slices.Contains(pids[:], first[0]) {
			t.Errorf("%s: the children of %d are %v, and it has started %v", name, cmd.Process.Pid, first, pids)
		} else if next := of(first[0]); len(next) != 1 || next[0] == first[0] || !slices.Contains(pids[:], next[0]) {
			t.Errorf("%s: the children of %d are %v, and the tree is %v", name, first[0], next, pids)
		}
	}
	subprocess.KillTree(cmd)
	<-ended
	for _, pid := range pids {
		eventually.Holds(t, limit, "a descendant is gone", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	}
}
