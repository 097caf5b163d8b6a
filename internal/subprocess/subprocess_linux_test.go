package subprocess_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
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
