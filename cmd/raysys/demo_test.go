package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/raysys/raysys/cmd/internal/cli"
)

// runDemo runs the command by itself; what it learns has tests of its own in examples/cartpole.
func runDemo(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	cmd := demoCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out, talk bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&talk)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return out.String(), talk.String(), err
}

func TestDemoUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--seed 0", "seed is 0: give 1 or more"},
		{"--steps -1", "steps is -1: give 1 or more"},
		{"--serve 0s", "serve is 0s: give a positive duration, such as 2s"},
		{"now", `demo takes no argument, and was given "now"`},
	} {
		stdout, _, err := runDemo(t.Context(), strings.Fields(c.args)...)
		var usage cli.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) || stdout != "" {
			t.Errorf("demo %s: %v, %q; want a usage error with %q", c.args, err, stdout, c.want)
		}
	}
	if _, _, err := runDemo(t.Context(), "-o", "table"); err == nil || !strings.Contains(err.Error(), "the forms are text and json") {
		t.Errorf("demo -o table: %v", err)
	}
}

func TestDemoNotLearned(t *testing.T) {
	stdout, stderr, err := runDemo(t.Context(), "--steps", "1", "-o", "json")
	var usage cli.UsageError
	if err == nil || errors.As(err, &usage) || stdout != "" || !strings.Contains(stderr, "learning: ") {
		t.Errorf("demo --steps 1: %v, %q, %q", err, stdout, stderr)
	}
}
