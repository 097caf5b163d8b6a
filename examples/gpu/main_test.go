package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse parses a command line, as main does; help is what -h prints.
func parse(args string) (f *flags, help string, err error) {
	var out bytes.Buffer
	set := flag.NewFlagSet("gpu", flag.ContinueOnError)
	set.SetOutput(&out)
	f = define(set)
	if err := set.Parse(strings.Fields(args)); err != nil {
		return nil, out.String(), err
	}
	return f, "", f.check(set.Args())
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-sizes 4,x": `invalid value "4,x" for flag -sizes: give the sizes of layers, such as 64,128,10`,
		"-sizes 4":   "Sizes has 1 layers",
		"-batch 0":   "Batch is 0",
		"-rate -1":   "Rate is -1: give one above 0",
		"-every 0":   "Every is 0",
		"-steps 0":   "steps is 0: give 1 or more",
		"-bogus":     "flag provided but not defined: -bogus",
		"now":        `gpu takes no argument, and was given "now"`,
	} {
		if _, _, err := parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	if _, help, err := parse("-h"); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help, "(default 64,256,128,10)") {
		t.Errorf("-h: %v, %q", err, help)
	}
}

func TestTrains(t *testing.T) {
	f, _, err := parse("-sizes 4,5,2 -batch 8 -steps 3")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = system.Run(t.Context(), system.Config{}, func(ctx context.Context) error { return f.run(ctx, &out) })
	if s := out.String(); err != nil || !strings.Contains(s, "ms/step  device\n") || !strings.HasSuffix(s, "  CPU\n") {
		t.Errorf("%v\n%s", err, s)
	}
}
