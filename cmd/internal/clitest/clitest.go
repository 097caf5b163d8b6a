package clitest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// asCommand turns the test binary into the command: the tests run it as a process without building it again, and so do
// the parts of a command that start processes of their own.
const asCommand = "RAYSYS_TEST_AS_COMMAND"

// Asked reports whether this process is to be the command, and no test.
func Asked() bool { return os.Getenv(asCommand) != "" }

// Run is a command without its process; it returns the exit code.
type Run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Cmd is the command as a process that has not been started, with args and variables NAME=VALUE on top of an environment without
// RAYSYS_*.
func Cmd(t *testing.T, args, variables []string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RAYSYS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, asCommand+"=1"), variables...)
	return cmd
}

// Command runs Cmd until it ends.
func Command(t *testing.T, args, variables []string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := Cmd(t, args, variables)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), talk.String(), cmd.ProcessState.ExitCode()
}

// InProcess is Command without the process. Variables last as long as the test t.
func InProcess(t *testing.T, run Run, args, variables []string) (stdout, stderr string, code int) {
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

// Case is one call of a command.
type Case struct {
	Args      []string
	Variables []string
	Code      int
	Talk      string // part of standard error
}

// ExitCodes makes the calls. What helps is data, a mistake is one line of talk and no data.
func ExitCodes(t *testing.T, run Run, cases []Case) {
	for _, c := range cases {
		t.Run(strings.Join(append(c.Variables, c.Args...), " "), func(t *testing.T) {
			stdout, stderr, code := InProcess(t, run, c.Args, c.Variables)
			if code != c.Code || !strings.Contains(stderr, c.Talk) {
				t.Errorf("%q with %q: exit %d, want %d; standard error %q, want %q in it", c.Args, c.Variables, code, c.Code, stderr, c.Talk)
			}
			switch {
			case code == 0 && (stdout == "" || stderr != ""):
				t.Errorf("%q: help belongs on standard output: %q, %q", c.Args, stdout, stderr)
			case code == 2 && stdout != "":
				t.Errorf("%q: a mistake wrote data: %q", c.Args, stdout)
			case code == 2 && (strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "error: ")):
				t.Errorf("%q: the error is not one line: %q", c.Args, stderr)
			}
		})
	}
}
