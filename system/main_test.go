package system_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// modeVariable makes the test binary a program of its own.
const modeVariable = "RAYSYS_TEST_MAIN"

var mainSquare = tasks.Define("square", func(_ context.Context, x int) (int, error) { return x * x, nil })

var (
	mainBoom  = tasks.Define("boom", func(_ context.Context, x int) (int, error) { panic(x) })
	mainOuter = tasks.Define("outer", func(ctx context.Context, x int) (int, error) { return mainBoom.Go(ctx, x).Get(ctx) })
)

// counterGrain says when it goes.
type counterGrain struct{ n int }

func (c *counterGrain) Add(_ context.Context, d int) (int, error) { c.n += d; return c.n, nil }

func (c *counterGrain) OnDeactivate(context.Context) error {
	fmt.Println("deactivated", c.n)
	return nil
}

var (
	mainCounters = grains.Define[counterGrain]("counter")
	mainAdd      = grains.Method(mainCounters, "add", (*counterGrain).Add)
)

// programs are the drivers of that program.
var programs = map[string]func(ctx context.Context) error{
	"works": func(ctx context.Context) error {
		v, err := mainSquare.Go(ctx, 7).Get(ctx)
		fmt.Println(v)
		return err
	},
	"fails": func(context.Context) error { return errors.New("the job is bad") },
	"odd text": func(context.Context) error {
		return errors.New("\x1b[2Ja\n15:04:05.678 ERROR b\u009b")
	},
	"panics": func(ctx context.Context) error {
		_, err := mainOuter.Go(ctx, 7).Get(ctx)
		return fmt.Errorf("the job: %w", err)
	},
	"grain": func(ctx context.Context) error {
		_, err := mainAdd.Call(ctx, mainCounters.Get("a"), 5).Get(ctx)
		return err
	},
	"waits": func(ctx context.Context) error {
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return nil
	},
	"stubborn": func(ctx context.Context) error {
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("first")
		select {}
	},
	"bad definition": nil, // see TestMain
	"args": func(context.Context) error {
		fmt.Println(len(os.Args), os.Args[1:])
		return nil
	},
	"flags":            printFlag,
	"parsed flags":     printFlag,
	"other flags":      printFlag,
	"own flags":        printFlag,
	"fills its memory": fillMemory,
}

func printFlag(context.Context) error {
	if f := flag.Lookup("strange"); f != nil {
		fmt.Println(f.Value, flag.NArg())
	}
	return nil
}

// defineFlags does what those programs do before Main.
func defineFlags(mode string) {
	if !strings.HasSuffix(mode, "flags") {
		return
	}
	flag.CommandLine = flag.NewFlagSet("program", flag.ExitOnError) // without those of tests
	switch mode {
	case "flags":
		flag.Var(new(given), "strange", "")
	case "parsed flags":
		flag.Var(new(given), "strange", "")
		flag.Parse()
	case "other flags":
		flag.Int("n", 0, "")
	case "own flags": // the program has a set of its own, and a package that it links has flags
		flag.Int("n", 0, "")
		_ = flag.CommandLine.Parse(nil)
	}
}

// given are the values of a flag that may be given again.
type given []string

func (g *given) String() string     { return fmt.Sprint([]string(*g)) }
func (g *given) Set(s string) error { *g = append(*g, s); return nil }

func TestMain(m *testing.M) {
	mode, ok := os.LookupEnv(modeVariable)
	if !ok {
		debug.SetGCPercent(400) // the maps of an actor system are small garbage of many words, and these tests start hundreds
		goleak.VerifyTestMain(m)
		return
	}
	if mode == "bad definition" {
		tasks.Define("square", func(_ context.Context, x int) (int, error) { return x, nil })
		tasks.Define[int, int]("nil", nil)
	}
	defineFlags(mode)
	system.Main(programs[mode])
	fmt.Println("Main returned") // it must not
}

func command(t *testing.T, mode string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe, "-strange", "flag")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RAYSYS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, modeVariable+"="+mode, fmt.Sprint("GOMAXPROCS=", runtime.GOMAXPROCS(0)))
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func TestMainExits(t *testing.T) {
	for name, c := range map[string]struct {
		mode           string
		env            []string
		code           int
		stdout, stderr string
	}{
		"works":          {mode: "works", stdout: "49\n"},
		"fails":          {mode: "fails", code: 1, stderr: "error: the job is bad"},
		"odd text":       {mode: "odd text", code: 1, stderr: "error: \\x1b[2Ja\n| 15:04:05.678 ERROR b\\u009b\n"},
		"panics":         {mode: "panics", code: 1, stderr: "error: the job: outer: boom: panic: 7\n\ngoroutine "},
		"quiet":          {mode: "works", env: []string{"RAYSYS_LOG=error", "RAYSYS_CPU=0.5"}, code: 2, stderr: "at least 1"},
		"log format":     {mode: "works", env: []string{"RAYSYS_LOG_FORMAT=xml"}, code: 2, stderr: `RAYSYS_LOG_FORMAT="xml": give terminal or json`},
		"logs in JSON":   {mode: "works", env: []string{"RAYSYS_LOG=info"}, stdout: "49\n", stderr: `{"level":"info","ts":"`},
		"logs coloured":  {mode: "works", env: []string{"RAYSYS_LOG=info", "RAYSYS_LOG_FORMAT=terminal"}, stdout: "49\n", stderr: "\x1b[34mINFO\x1b[0m node started {"},
		"join timeout":   {mode: "works", env: []string{"RAYSYS_CONSUL=127.0.0.1:1", "RAYSYS_JOIN_TIMEOUT=300ms"}, code: 3, stderr: "not joined within 300ms: start Consul at 127.0.0.1:1, or raise RAYSYS_JOIN_TIMEOUT"},
		"arguments":      {mode: "args", stdout: "3 [-strange flag]\n"},
		"flags":          {mode: "flags", stdout: "[flag] 0\n"},
		"parsed flags":   {mode: "parsed flags", stdout: "[flag] 0\n"}, // once
		"other flags":    {mode: "other flags", code: 2, stderr: "flag provided but not defined: -strange\nUsage of program:\n  -n int"},
		"own flags":      {mode: "own flags"},
		"grains":         {mode: "grain", stdout: "deactivated 5\n"},
		"role":           {mode: "works", env: []string{"RAYSYS_CONSUL=127.0.0.1:1", "RAYSYS_ROLE=boss"}, code: 2, stderr: `role "boss"`},
		"all addresses":  {mode: "works", env: []string{"RAYSYS_CONSUL=127.0.0.1:1", "RAYSYS_LISTEN=:7000"}, code: 2, stderr: "RAYSYS_ADVERTISE"},
		"half TLS":       {mode: "works", env: []string{"RAYSYS_CONSUL=127.0.0.1:1", "RAYSYS_TLS_CERT=c.pem"}, code: 2, stderr: "RAYSYS_TLS_KEY"},
		"bad seed":       {mode: "works", env: []string{"RAYSYS_SEED=x", "RAYSYS_CPU=-1"}, code: 2, stderr: `RAYSYS_SEED="x"`},
		"bad cpu":        {mode: "works", env: []string{"RAYSYS_CPU=0.5"}, code: 2, stderr: "at least 1"},
		"bad definition": {mode: "bad definition", code: 2, stderr: "main_test.go:"},
		"seed":           {mode: "works", env: []string{"RAYSYS_SEED=7", "RAYSYS_NAME=n1", "RAYSYS_LOG=info"}, stdout: "49\n", stderr: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, c.mode, c.env...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d (%v), want %d\n%s", code, err, c.code, stderr.String())
			}
			if stdout.String() != c.stdout {
				t.Errorf("stdout is %q, want %q", stdout.String(), c.stdout)
			}
			if c.stderr == "" { // a driver says where it runs, and nothing else
				c.stderr = fmt.Sprintf("raysys: alone in this process, %d CPUs\n", runtime.GOMAXPROCS(0))
				if stderr.String() != strings.ReplaceAll(c.stderr, " 1 CPUs", " 1 CPU") {
					t.Errorf("stderr is %q, want %q", stderr.String(), c.stderr)
				}
				return
			}
			if !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("stderr is %q, want %q", stderr.String(), c.stderr)
			}
		})
	}
}

// TestSignals: the first signal cancels the driver's context with its name, the second ends the process.
func TestSignals(t *testing.T) {
	for name, c := range map[string]struct {
		mode string
		sig  syscall.Signal
		say  []string
		code int
	}{
		"SIGTERM":      {"waits", syscall.SIGTERM, []string{"received signal: terminated"}, 0},
		"SIGINT":       {"waits", syscall.SIGINT, []string{"received signal: interrupt"}, 0},
		"second":       {"stubborn", syscall.SIGTERM, []string{"first"}, 1},
		"second is ^C": {"stubborn", syscall.SIGINT, []string{"first"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, c.mode)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			next := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Errorf("it says %q, want %q", lines.Text(), want)
				}
			}
			next("ready")
			if err := cmd.Process.Signal(c.sig); err != nil {
				t.Fatal(err)
			}
			for _, s := range c.say {
				next(s)
			}
			if c.mode == "stubborn" {
				if err := cmd.Process.Signal(c.sig); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != c.code {
				t.Errorf("%v, want exit code %d\n%s", err, c.code, stderr.String())
			}
		})
	}
}
