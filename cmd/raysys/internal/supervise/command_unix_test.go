//go:build unix

package supervise_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
)

// The test binary is the program too: part says which, tell is where it reports to.
const (
	part = "SUPERVISE_TEST_PART"
	tell = "SUPERVISE_TEST_TELL"
)

func TestMain(m *testing.M) {
	if p := os.Getenv(part); p != "" {
		os.Exit(play(p))
	}
	goleak.VerifyTestMain(m)
}

// play is the program. What has to be seen from outside connects to the test, which notices its death by the end of
// the connection.
func play(p string) int {
	switch p {
	case "talk":
		fmt.Println("launch", os.Getenv(supervise.LaunchVariable))
		fmt.Println("to stdout", os.Getenv("GREETING"), os.Args[1:])
		fmt.Fprintln(os.Stderr, "to stderr")
		return 3
	case "sit": // until the test lets go, or a signal
		return sit()
	case "polite":
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		call("polite")
		<-asked
		fmt.Println("drained")
		return 0
	case "teller": // says so, and leaves a child behind that holds the pipe
		fd, _, _ := strings.Cut(os.Getenv(supervise.SupervisorVariable), ":")
		n, _ := strconv.Atoi(fd)
		pipe := os.NewFile(uintptr(n), "pipe")
		fmt.Fprintf(pipe, "%s\n%s\n", supervise.Draining, os.Args[1])
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), part+"=sit")
		c.ExtraFiles = []*os.File{pipe}
		if err := c.Start(); err != nil {
			fmt.Println(err)
			return 99
		}
		return 0
	case "hear": // passes on what it hears, once the test is ready for it
		fd, _, _ := strings.Cut(os.Getenv("FEED"), ":")
		n, _ := strconv.Atoi(fd)
		conn := call("hear")
		conn.Read(make([]byte, 1))
		io.Copy(conn, os.NewFile(uintptr(n), "feed"))
		return 0
	case "parent", "deserter": // leaves a child behind, in its group or not
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), part+"=sit")
		c.Stdout = os.Stdout
		if p == "deserter" {
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if err := c.Start(); err != nil {
			fmt.Println(err)
			return 99
		}
		conn := call("parent")
		io.ReadAll(conn) // until the test has seen both
		return 0
	case "supervisor":
		c := program("sit", os.Getenv(tell))
		child, err := c.Launch()
		if err != nil {
			fmt.Println(err)
			return 99
		}
		call("supervisor")
		<-child.Exited()
		return 0
	}
	return 98
}

func call(name string) net.Conn {
	conn, err := net.Dial("tcp", os.Getenv(tell))
	if err != nil {
		fmt.Println(err)
		os.Exit(97)
	}
	fmt.Fprintln(conn, name)
	return conn
}

func sit() int {
	io.ReadAll(call("sit"))
	return 0
}

func program(p, addr string) *supervise.Command {
	return &supervise.Command{
		Path: os.Args[0], Env: append(os.Environ(), part+"="+p, tell+"="+addr, "GREETING=hello", quickExit),
		Stdout: io.Discard, Stderr: io.Discard, Lines: supervise.NewLines("n | "),
	}
}

// quickExit takes away the second that a program with the race detector waits before it exits.
const quickExit = "GORACE=atexit_sleep_ms=0"

const patience = 20 * time.Second

// stage accepts the calls of programs.
type stage struct {
	t *testing.T
	l net.Listener
}

func newStage(t *testing.T) *stage {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &stage{t, l}
}

func (s *stage) addr() string { return s.l.Addr().String() }

// expect waits for the calls of these programs, in any order.
func (s *stage) expect(names ...string) map[string]net.Conn {
	s.t.Helper()
	s.l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	got := map[string]net.Conn{}
	for range names {
		c, err := s.l.Accept()
		if err != nil {
			s.t.Fatalf("%v: %d of %q called", err, len(got), names)
		}
		s.t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		got[strings.TrimSpace(line)] = c
	}
	for _, n := range names {
		if got[n] == nil {
			s.t.Fatalf("%q did not call", n)
		}
	}
	return got
}

// gone waits for the end of a program.
func gone(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("it is still there")
	}
}

func launch(t *testing.T, c *supervise.Command) supervise.Process {
	t.Helper()
	p, err := c.Launch()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func exitOf(t *testing.T, p supervise.Process) supervise.Exit {
	t.Helper()
	select {
	case e := <-p.Exited():
		return e
	case <-time.After(patience):
		t.Fatal("no exit")
	}
	return supervise.Exit{}
}

func TestCommand(t *testing.T) {
	c := program("talk", "")
	c.Env = append(c.Env, supervise.LaunchVariable+"=of another")
	c.Args = []string{"a", "b c"}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	p := launch(t, c)
	e := exitOf(t, p)
	last := p.Close()
	if e.Code != 3 || e.Signal != "" || e.PID != p.PID() || e.Ran <= 0 {
		t.Errorf("exit %+v of %d", e, p.PID())
	}
	if e.Launch == "" || out.String() != "n | launch "+e.Launch+"\nn | to stdout hello [a b c]\n" || errs.String() != "n | to stderr\n" || len(last) != 3 {
		t.Errorf("%q, %q, %q", out.String(), errs.String(), last)
	}
}

// What the program says on its pipe is in its exit: the last of it, at once, and not as an error of those it left behind.
func TestTold(t *testing.T) {
	s := newStage(t)
	for _, told := range []supervise.Told{supervise.Draining, supervise.Restarting, supervise.Staying, "words of a later version"} {
		c := program("teller", s.addr())
		c.Args = []string{string(told)}
		p := launch(t, c)
		s.expect("sit") // it holds the pipe still
		if e := exitOf(t, p); e.Told != told || e.Code != 0 {
			t.Errorf("a program that said %q last ended with %+v", told, e)
		}
		p.Close()
	}
	p := launch(t, program("sit", s.addr()))
	s.expect("sit")["sit"].Close()
	if e := exitOf(t, p); e.Told != "" {
		t.Errorf("a program that said nothing ended with %+v", e)
	}
	p.Close()
}

func TestCommandThatCannotStart(t *testing.T) {
	c := program("", "")
	c.Path = t.TempDir()
	if p, err := c.Launch(); err == nil || !strings.Contains(err.Error(), "start "+c.Path) {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestTerminateAndKill(t *testing.T) {
	s := newStage(t)
	c := program("polite", s.addr())
	var out bytes.Buffer
	c.Stdout = &out
	p := launch(t, c)
	s.expect("polite")
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if e := exitOf(t, p); e.Code != 0 || e.Signal != "" {
		t.Errorf("exit %+v", e)
	}
	if p.Close(); out.String() != "n | drained\n" {
		t.Errorf("it said %q", out.String())
	}

	p = launch(t, program("sit", s.addr()))
	s.expect("sit")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if e := exitOf(t, p); e.Code != -1 || e.Signal != "killed" || !strings.Contains(e.String(), "ended by signal (killed)") {
		t.Errorf("exit %v", e)
	}
	p.Close()
}

// The exit is known at once, though a grandchild holds the streams; Close ends those it can, and waits for nobody else.
func TestLeftBehind(t *testing.T) {
	for _, who := range []string{"parent", "deserter"} {
		t.Run(who, func(t *testing.T) {
			s := newStage(t)
			p := launch(t, program(who, s.addr()))
			conns := s.expect("parent", "sit")
			conns["parent"].Close()
			if e := exitOf(t, p); e.Code != 0 {
				t.Errorf("exit %v", e)
			}
			if who == "deserter" {
				p.Close()
				conns["sit"].SetReadDeadline(time.Now())
				if _, err := conns["sit"].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("who left the group is gone: %v", err)
				}
				return // its connection ends with the test
			}
			p.Close()
			gone(t, conns["sit"])
		})
	}
}

// A supervisor that is killed takes its program along.
func TestSupervisorDies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a parent-death signal")
	}
	s := newStage(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), part+"=supervisor", tell+"="+s.addr())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conns := s.expect("supervisor", "sit")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	gone(t, conns["sit"])
}

// The pieces together: a process killed from outside is started again, and a drain ends the next.
func TestRunRealProcesses(t *testing.T) {
	s := newStage(t)
	c := program("polite", s.addr())
	started := make(chan int, 10)
	reported := make(reports, 10)
	sup, err := supervise.New(supervise.Config{
		Name: "n", Reporter: reported, RestartMin: time.Millisecond,
		Launch: func() (supervise.Process, error) {
			p, err := c.Launch()
			if err == nil {
				started <- p.PID()
			}
			return p, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- sup.Run(ctx, nil) }()
	first := <-started
	s.expect("polite")
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := <-reported; e.PID != first || e.Signal != "killed" {
		t.Errorf("reported %v, want the death of %d", e, first)
	}
	second := <-started
	s.expect("polite")
	cancel()
	if e := <-reported; e.PID != second || e.Code != 0 {
		t.Errorf("reported %v, want the end of %d", e, second)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// reports is a Reporter that keeps what it is told.
type reports chan supervise.Exit

func (r reports) Exited(_ context.Context, _ raysys.NodeID, e supervise.Exit) error {
	r <- e
	return nil
}
