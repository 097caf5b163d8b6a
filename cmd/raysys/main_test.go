package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// asCommand turns the test binary into raysys: the tests run the command as a process without building it again, and
// so do the rows of bench that start processes of their own.
const asCommand = "RAYSYS_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	testscript.Main(leakChecked{m}, map[string]func(){"raysys": main, "app": app, "worker": worker, "cartpole": cartpole, "holder": holder, "grouper": grouper, "maker": maker})
}

// leakChecked is goleak.VerifyTestMain for who wants to run the tests itself.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if asked.Load() {
		if server, err := shared(); err == nil {
			server.Close()
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// command runs raysys with args and variables NAME=VALUE on top of an environment without RAYSYS_*.
func command(t *testing.T, args, variables []string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RAYSYS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, asCommand+"=1"), variables...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), talk.String(), cmd.ProcessState.ExitCode()
}

// inProcess is command without the process. Variables last as long as the test t.
func inProcess(t *testing.T, args, variables []string) (stdout, stderr string, code int) {
	t.Helper()
	for _, v := range append(os.Environ(), variables...) {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case slices.Contains(variables, v):
			t.Setenv(name, value)
		case strings.HasPrefix(name, "RAYSYS_"):
			t.Setenv(name, "") // the same as not set
		}
	}
	var out, talk bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &talk)
	return out.String(), talk.String(), code
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args      []string
		variables []string
		code      int
		talk      string // part of standard error
	}{
		{args: []string{}, code: 0},
		{args: []string{"--help"}, code: 0},
		{args: []string{"bench", "--help"}, code: 0},
		{args: []string{"frobnicate"}, code: 2, talk: `command "frobnicate" does not exist: run raysys --help`},
		{args: []string{"--frobnicate"}, code: 2, talk: "run raysys --help"},
		{args: []string{"version", "now"}, code: 2, talk: `raysys version takes no argument, and was given "now"`},
		{args: []string{"version", "-o", "yaml"}, code: 2, talk: "the forms are table and json"},
		{args: []string{"version"}, variables: []string{"RAYSYS_OUTPUT=yaml"}, code: 2, talk: `RAYSYS_OUTPUT="yaml" cannot be meant for --output: the forms are table and json`},
		{args: []string{"bench", "--bogus"}, code: 2, talk: "unknown flag: --bogus: run raysys bench --help"},
		{args: []string{"bench", "tasks_sync"}, code: 2, talk: "run raysys bench --help"},
		{args: []string{"bench", "-o", "xml"}, code: 2, talk: "the forms are table and json"},
		{args: []string{"bench", "--row", "tasks_sink"}, code: 2, talk: "use --row with tasks_async,"},
		{args: []string{"bench", "--row", "failover"}, code: 2, talk: "use --tier cross-process"},
		{args: []string{"bench", "--tier", "cross-process", "--consul", "here"}, code: 2, talk: "give HOST:PORT"},
		{args: []string{"bench", "--tier", "cross-process"}, variables: []string{"RAYSYS_CONSUL_PROGRAM=/nonexistent"}, code: 2, talk: "run make consul"},
		{args: []string{"bench", "--tier", "cross-process"}, variables: []string{"RAYSYS_CONSUL=127.0.0.1:1"}, code: 1, talk: "no Consul answers at 127.0.0.1:1"},
		{args: []string{"bench", "--tier", "cross-process"}, variables: []string{"RAYSYS_CONSUL_PREFIX=raysys/prod/"}, code: 2, talk: "would put the nodes of the benchmark into the cluster"},
		{args: []string{"bench", "--tier", "space"}, code: 2, talk: `tier "space" does not exist`},
		{args: []string{"bench", "--rounds", "0"}, code: 2, talk: "--rounds is 0: give 1 or more"},
		{args: []string{"bench"}, variables: []string{"RAYSYS_ROUNDS=many"}, code: 2, talk: `RAYSYS_ROUNDS="many" cannot be meant for --rounds`},
		{args: []string{"bench"}, variables: []string{"RAYSYS_ROW=nothing"}, code: 2, talk: `row "nothing" does not exist`},
		{args: []string{"chaos", "--faults", "kill,flood"}, code: 2, talk: `such rounds have no fault "flood": run raysys chaos --help`},
		{args: []string{"chaos", "--nodes", "1"}, code: 2, talk: "--nodes 1: give 2 to 9"},
		{args: []string{"chaos", "--rounds", "-1"}, code: 2, talk: "--rounds -1: give 1 or more"},
		{args: []string{"chaos", "--for", "-1s"}, code: 2, talk: "--for -1s: give a positive duration"},
		{args: []string{"chaos", "--length", "1s"}, code: 2, talk: "--length 1s: give 10s or more"},
		{args: []string{"chaos", "--only", "3"}, code: 2, talk: "--only without --seed"},
		{args: []string{"chaos", "now"}, code: 2, talk: "run raysys chaos --help"},
		{args: []string{"chaos-round"}, code: 2, talk: "use raysys chaos"},
		{args: []string{"bench-child", "dance"}, code: 2, talk: "use raysys bench"},
		{args: []string{"bench", "--row", "tasks_sync"}, variables: []string{"RAYSYS_CPU=0.5"}, code: 1, talk: "1 of 1 rows failed: run raysys bench --tier in-process --row tasks_sync"},
	} {
		t.Run(strings.Join(append(c.variables, c.args...), " "), func(t *testing.T) {
			stdout, stderr, code := inProcess(t, c.args, c.variables)
			if code != c.code || !strings.Contains(stderr, c.talk) {
				t.Errorf("raysys %q with %q: exit %d, want %d; standard error %q, want %q in it", c.args, c.variables, code, c.code, stderr, c.talk)
			}
			switch {
			case code == 0 && (stdout == "" || stderr != ""):
				t.Errorf("raysys %q: help belongs on standard output: %q, %q", c.args, stdout, stderr)
			case code == 2 && stdout != "":
				t.Errorf("raysys %q: a mistake wrote data: %q", c.args, stdout)
			case code == 2 && (strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "error: ")):
				t.Errorf("raysys %q: the error is not one line: %q", c.args, stderr)
			}
		})
	}
}

// The codes reach the shell.
func TestExitCodesOfTheProcess(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"version"}, 0}, {[]string{"frobnicate"}, 2}} {
		if _, stderr, code := command(t, c.args, nil); code != c.code {
			t.Errorf("raysys %q: exit %d, want %d: %s", c.args, code, c.code, stderr)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("received signal: interrupt"))
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"bench", "--row", "tasks_sync"}, strings.NewReader(""), &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "bench stopped in row tasks_sync: received signal: interrupt") {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}
