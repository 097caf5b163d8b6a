package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args     string
		variable string // NAME=VALUE
		code     int
		talk     string // part of standard error
	}{
		{args: "-seed 0", code: 2, talk: "seed is 0: give 1 or more"},
		{args: "-seed -1", code: 2, talk: `invalid value "-1" for flag -seed`},
		{args: "-steps 0", code: 2, talk: "steps is 0: give 1 or more"},
		{args: "-serve -1s", code: 2, talk: "serve is -1s: give a positive duration, such as 2s"},
		{args: "-serve long", code: 2, talk: `invalid value "long" for flag -serve`},
		{args: "-o xml", code: 2, talk: "the forms are text and json"},
		{args: "-bogus", code: 2, talk: "flag provided but not defined: -bogus: run with -h for the flags"},
		{args: "now", code: 2, talk: `cartpole takes no argument, and was given "now"`},
		{variable: "RAYSYS_CONSUL=nowhere", code: 2, talk: `address of Consul "nowhere"`},
		{variable: "RAYSYS_CPU=0.5", code: 2, talk: "needs at least 1"},
		{args: "-steps 1 -o json", code: 1, talk: "error: not learned: the mean return was "},
	} {
		t.Run(c.args+c.variable, func(t *testing.T) {
			t.Setenv("RAYSYS_CONSUL", "")
			if name, value, ok := strings.Cut(c.variable, "="); ok {
				t.Setenv(name, value)
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
			if code != c.code || !strings.Contains(stderr.String(), c.talk) {
				t.Errorf("exit %d, want %d; standard error %q, want %q in it", code, c.code, stderr.String(), c.talk)
			}
			if stdout.Len() > 0 {
				t.Errorf("a failure wrote data: %q", stdout.String())
			}
			if c.code == 2 && (strings.Count(stderr.String(), "\n") != 1 || !strings.HasPrefix(stderr.String(), "error: ")) {
				t.Errorf("the error is not one line: %q", stderr.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-h"}, &stdout, &stderr)
	if code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit %d, %q", code, stderr.String())
	}
	for _, flag := range []string{"-seed", "-steps", "-serve", "-o"} {
		if !strings.Contains(stdout.String(), flag+" ") {
			t.Errorf("%s is not in the help:\n%s", flag, stdout.String())
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var stdout, stderr bytes.Buffer
	code := run(ctx, nil, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "interrupt signal received") || stdout.Len() > 0 {
		t.Errorf("exit %d, %q, %q", code, stdout.String(), stderr.String())
	}
}
