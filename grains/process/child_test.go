package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// role says what this binary is when a test started it: "child" speaks the protocol, "sit" waits for its end, "node" is a node with a
// child whose process id it prints.
const role = "RAYSYS_PROCESS_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "child":
		child()
	case "sit":
		select {}
	case "node":
		node()
	case "bad":
		bad()
	default:
		testkit.Main(m)
	}
}

// child is a child that is not Python. Its methods misbehave, by their names.
func child() {
	in, out := bufio.NewReader(os.NewFile(3, "calls")), os.NewFile(4, "replies")
	send := func(m process.Message) {
		if err := m.Write(out, process.ResultFrame, limit); err != nil {
			panic(err)
		}
	}
	for {
		_, body, err := process.ReadFrame(in, limit)
		if err != nil {
			os.Exit(0)
		}
		m, err := process.Decode(body)
		if err != nil {
			panic(err)
		}
		switch m.Method {
		case "":
			fmt.Println("devices:", os.Getenv("CUDA_VISIBLE_DEVICES"))
			send(process.Message{})
		case "echo":
			send(process.Message{Values: m.Values, Tensors: m.Tensors})
		case "slow": // gives signs of life and no answer
			for range time.Tick(100 * time.Millisecond) {
				_, _ = out.Write([]byte{1, 0, 0, 0, byte(process.BeatFrame)})
			}
		case "hang":
			select {}
		case "exit":
			fmt.Fprintln(os.Stderr, "first\nlast words")
			os.Exit(3)
		case "later": // it ends behind its answer
			send(process.Message{})
			os.Exit(4)
		case "half":
			_, _ = out.Write([]byte{200, 0, 0, 0, byte(process.ResultFrame), 1, 2})
			os.Exit(5)
		case "binary":
			_, _ = out.Write([]byte("Loading model\x00\xff..."))
			select {}
		case "large":
			_, _ = out.Write([]byte{255, 255, 255, 127, byte(process.ResultFrame)})
			select {}
		case "back":
			_ = m.Write(out, process.CallFrame, limit)
			select {}
		case "shared": // memory that it has not
			_ = m.Write(out, process.SharedFrame, limit)
			select {}
		case "header":
			_, _ = out.Write([]byte{6, 0, 0, 0, byte(process.ResultFrame), 1, 0, 0, 0, '{'})
			select {}
		case "leave": // the group, for that of the node
			group, err := syscall.Getpgid(os.Getppid())
			if err = errors.Join(err, syscall.Setpgid(0, group)); err != nil {
				panic(err)
			}
			send(process.Message{})
		case "fork", "session":
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), role+"=sit")
			cmd.Stdout = os.Stdout // it holds the pipe, beyond the life of this process
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: m.Method == "session"}
			if err := cmd.Start(); err != nil {
				panic(err)
			}
			send(process.Message{Values: fmt.Appendf(nil, `{"pid":%d}`, cmd.Process.Pid)})
		}
	}
}

type (
	echo struct {
		N int            `json:"n"`
		X process.Tensor `json:"x"`
	}
	none struct{}
	pid  struct {
		PID int `json:"pid"`
	}
)

// others are children that are not Python, strange ones such whose heartbeat counts soon.
var (
	others   = process.Define("other", config(0))
	strange  = process.Define("strange", config(3*time.Second))
	echoed   = process.Method[echo, echo](others, "echo")
	slow     = process.Method[none, none](others, "slow")
	later    = process.Method[none, none](others, "later")
	fork     = process.Method[none, pid](others, "fork")
	session  = process.Method[none, pid](others, "session")
	leave    = process.Method[none, none](others, "leave")
	hang     = process.Method[none, none](strange, "hang")
	ofChild  = grains.Method0(others.Kind, "pid", func(c *process.Child, _ context.Context) (int, error) { return c.PID(), nil })
	faults   = map[string]grains.Func[process.Child, none, none]{}
	failures = map[string]error{
		"exit": process.ErrExited, "half": process.ErrExited, "binary": process.ErrProtocol, "large": raysys.ErrTooLarge, "back": process.ErrProtocol,
		"header": process.ErrProtocol, "shared": process.ErrProtocol,
	}
)

func init() {
	for name := range failures {
		faults[name] = process.Method[none, none](others, name)
	}
}

func config(beat time.Duration) process.Config {
	return process.Config{Command: []string{os.Args[0]}, Env: []string{role + "=child"}, Heartbeat: beat, MaxFrame: limit}
}

// busy bounds what a busy machine takes.
const busy = time.Minute

func callEcho(t *testing.T, ctx context.Context, key string) {
	t.Helper()
	got, err := echoed.Call(ctx, others.Get(key), echo{7, process.Of([]int32{1, 2, 3, 4}, 2, 2)}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := process.Values[int32](got.X); got.N != 7 || got.X.String() != "int32[2 2]" || fmt.Sprint(v) != "[1 2 3 4]" || err != nil {
		t.Error(got, v, err)
	}
}

func TestOtherLanguage(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	callEcho(t, ctx, "a")
	first, err := ofChild.Call(ctx, others.Get("a")).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	callEcho(t, ctx, "a")
	if next, err := ofChild.Call(ctx, others.Get("a")).Get(ctx); next != first || first == 0 || err != nil {
		t.Error(first, next, err)
	}
	if got, err := echoed.Call(ctx, others.Get("a"), echo{N: 1}).Get(ctx); !got.X.IsZero() || err != nil {
		t.Error(got, err)
	}
	big := echo{X: process.Of(make([]uint8, limit))}
	if _, err := echoed.Call(ctx, others.Get("a"), big).Get(ctx); !errors.Is(err, raysys.ErrTooLarge) {
		t.Error(err)
	}
	bad := echo{X: process.Tensor{DType: process.Bool, Shape: []int{3}}}
	if _, err := echoed.Call(ctx, others.Get("a"), bad).Get(ctx); !errors.Is(err, process.ErrTensor) {
		t.Error(err)
	}
	if next, err := ofChild.Call(ctx, others.Get("a")).Get(ctx); next != first || err != nil {
		t.Error("an argument that was refused has cost the child:", err)
	}
}

// TestFaults: what a child does wrong is a typed error of the call that met it, over the wire too, and the next call finds another child.
func TestFaults(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	ctx := k.Context()
	for name, want := range failures {
		t.Run(name, func(t *testing.T) {
			callEcho(t, ctx, name)
			_, err := faults[name].Call(ctx, others.Get(name), none{}).Get(ctx)
			exit, ok := errors.AsType[*process.ExitError](err)
			if !ok || !errors.Is(err, want) || !errors.Is(err, process.ErrExited) || exit.Process != "other/"+name {
				t.Fatalf("%+v", err)
			}
			status := map[string]string{"exit": "exit status 3", "half": "exit status 5"}[name]
			if status == "" {
				status = "signal: killed"
			}
			if exit.Status != status {
				t.Error(exit.Status)
			}
			if name == "exit" && exit.Stderr != "first\nlast words" {
				t.Errorf("%q", exit.Stderr)
			}
			callEcho(t, ctx, name)
		})
	}
}

// TestSilent: a child without signs of life is killed.
func TestSilent(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	ctx := k.Context()
	if _, err := hang.With(raysys.Deadline(busy)).Call(ctx, strange.Get("a"), none{}).Get(ctx); !errors.Is(err, process.ErrSilent) || !errors.Is(err, process.ErrExited) {
		t.Error(err)
	}
}

// TestEndsBetweenCalls: the next call tells, and the one behind it finds another child.
func TestEndsBetweenCalls(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	if _, err := later.Call(ctx, others.Get("a"), none{}).Get(ctx); err != nil {
		t.Fatal(err)
	}
	id, err := ofChild.Call(ctx, others.Get("a")).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, busy, "the child has ended", func() bool { return !runs(id) })
	_, err = echoed.Call(ctx, others.Get("a"), echo{}).Get(ctx)
	if exit, ok := errors.AsType[*process.ExitError](err); !ok || exit.Status != "exit status 4" {
		t.Fatal(err)
	}
	callEcho(t, ctx, "a")
}

// TestDeadline: a call that comes to no end is its child's end.
func TestDeadline(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	callEcho(t, ctx, "a")
	id, err := ofChild.Call(ctx, others.Get("a")).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.With(raysys.Deadline(300*time.Millisecond)).Call(ctx, others.Get("a"), none{}).Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
		t.Error(err)
	}
	callEcho(t, ctx, "a")
	if next, err := ofChild.Call(ctx, others.Get("a")).Get(ctx); next == id || runs(id) || err != nil {
		t.Error(id, next, err)
	}
	short, cancel := context.WithCancel(ctx)
	f := slow.Call(short, others.Get("a"), none{})
	cancel()
	if _, err := f.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
		t.Error(err)
	}
	callEcho(t, ctx, "a")
}

func TestNoProgram(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	if _, err := noDirF.Call(ctx, noDir.Get("a"), none{}).Get(ctx); err == nil || !strings.Contains(err.Error(), "lost.dir/a: start a child process: Config.Dir: stat /nonexistent/dir: no such file") {
		t.Error(err)
	}
	if _, err := fileDirF.Call(ctx, fileDir.Get("a"), none{}).Get(ctx); err == nil || !strings.Contains(err.Error(), "Config.Dir: child_test.go is no directory") {
		t.Error(err)
	}
	if _, err := lostEcho.Call(ctx, lost.Get("a"), none{}).Get(ctx); err == nil || !strings.Contains(err.Error(), "lost/a: start a child process: fork/exec /nonexistent/program: no such file") {
		t.Error(err)
	}
}

// TestBadDefinitions: system.New tells them all, with the places of the program.
func TestBadDefinitions(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=bad")
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"process bad.none at * give Script, New, Gym or Command", "process bad.both at * with Command leave Script, New, Gym and Python empty", "process bad.gym at * with Gym give Envs, and no New",
		"process bad.args at * bad Args: json: unsupported type: chan int", "process bad.size at * bad Envs -1, MaxFrame 0, or Start 0s", "process bad.vector at * a Vector needs Envs",
		"process bad.script at * bad Script: it is no UTF-8", `process bad.text at * bad Args: text that is no UTF-8, near "{\"c\":\"a\\ufffdb\"}"`,
		"process bad.none.a at * the value does not fit: int is no struct", "process bad.none.b at * the value does not fit: process.Tensor is no struct",
	} {
		want = regexp.QuoteMeta(want)
		if !regexp.MustCompile(strings.Replace(want, `\*`, `\S*/child_test\.go:\d+:`, 1)).Match(b) {
			t.Errorf("nothing like %s in:\n%s", want, b)
		}
	}
}

// bad makes definitions that cannot be meant, and prints what is said to them.
func bad() {
	script := "def f(): pass"
	k := process.Define("bad.none", process.Config{})
	process.Define("bad.both", process.Config{Script: script, Command: []string{"true"}})
	process.Define("bad.gym", process.Config{Gym: "CartPole-v1"})
	process.Define("bad.args", process.Config{Script: script, Args: map[string]any{"c": make(chan int)}})
	process.Define("bad.script", process.Config{Script: script + " # \xff"})
	process.Define("bad.text", process.Config{Script: script, Args: map[string]any{"c": "a\xffb"}})
	process.Define("bad.size", process.Config{Script: script, Envs: -1})
	process.DefineVector("bad.vector", process.Config{Script: script, New: "Env"})
	process.Method[int, none](k, "a")
	process.Method[none, process.Tensor](k, "b")
	_, err := system.New(system.Config{})
	fmt.Println(err)
}

var (
	lost     = process.Define("lost", process.Config{Command: []string{"/nonexistent/program"}})
	lostEcho = process.Method[none, none](lost, "echo")
	noDir    = process.Define("lost.dir", process.Config{Command: []string{os.Args[0]}, Dir: "/nonexistent/dir"})
	noDirF   = process.Method[none, none](noDir, "echo")
	fileDir  = process.Define("lost.file", process.Config{Command: []string{os.Args[0]}, Dir: "child_test.go"})
	fileDirF = process.Method[none, none](fileDir, "echo")
)

// runs reports whether there is a process, which may wait to be reaped.
func runs(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// node starts a child, which has started another process, prints their ids and waits to be killed.
func node() {
	n, err := system.New(system.Config{})
	if err != nil {
		panic(err)
	}
	if err := n.Start(context.Background()); err != nil {
		panic(err)
	}
	ctx := n.Context(context.Background())
	f, err := fork.Call(ctx, others.Get("a"), none{}).Get(ctx)
	if err != nil {
		panic(err)
	}
	id, err := ofChild.Call(ctx, others.Get("a")).Get(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(id, f.PID)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
