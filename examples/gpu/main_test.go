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
	t.Setenv("RAYSYS_CONSUL", "")
	t.Setenv("RAYSYS_GPUS", "none")
	for _, c := range []struct {
		args, talk string
		code       int
	}{
		{"-sizes 4,5,2 -batch 8 -steps 3", "", 0},
		{"-sizes 4,x", `invalid value "4,x" for flag -sizes: give the sizes of layers, such as 64,128,10`, 2},
		{"-sizes 4", "Sizes has 1 layers", 2},
		{"-batch 0", "Batch is 0", 2},
		{"-rate -1", "Rate is -1: give one above 0", 2},
		{"-every 0", "Every is 0", 2},
		{"-steps 0", "steps is 0: give 1 or more", 2},
		{"-bogus", "flag provided but not defined: -bogus", 2},
		{"now", `gpu takes no argument, and was given "now"`, 2},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.talk) {
			t.Errorf("%q: exit %d, want %d; standard error %q", c.args, code, c.code, stderr.String())
		}
		if c.code == 0 && (!strings.Contains(stdout.String(), "ms/step  device\n") || !strings.HasSuffix(stdout.String(), "  CPU\n")) {
			t.Errorf("%q reports\n%s", c.args, stdout.String())
		}
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "(default 64,256,128,10)") {
		t.Errorf("exit %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	t.Setenv("RAYSYS_CONSUL", "")
	t.Setenv("RAYSYS_GPUS", "none")
	var stdout, stderr bytes.Buffer
	if code := run(ctx, nil, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "interrupt signal received") {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}
