package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// parse parses a command line, as main does.
func parse(args string) (*options, error) {
	set := flag.NewFlagSet("sort", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	o := define(set)
	if err := set.Parse(strings.Fields(args)); err != nil {
		return nil, err
	}
	return o, o.check(set.Args())
}

// run sorts on a node of its own, and returns the report.
func run(t *testing.T, args string) (string, error) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	k := testkit.New(t, testkit.Config(system.Config{Objects: system.ObjectConfig{Memory: int64(o.memory)}}))
	err = o.sort(k.Context(), &stdout, io.Discard)
	return stdout.String(), err
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-size much":   `invalid value "much" for flag -size: give bytes or a size such as 512MiB`,
		"-size -1":     `give bytes or a size`,
		"-size 1e30GB": `give bytes or a size`,
		"-parallel 0":  "parallel is 1 or more",
		"-parts -1":    "parts and partitions are 0 or more",
		"-bogus":       "flag provided but not defined: -bogus",
		"now":          `sort takes no argument, and was given "now"`,
	} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

func TestRuns(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, make([]byte, 150), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string // of the error
		code       int
	}{
		{args: "-size 1MB -memory 400KB -seed 3"},
		{args: "-size 0"},
		{"-in " + odd, "has 150 bytes, which are no records of 100", 2},
		{"-in /nowhere", "read records", 1},
		{"-out /nowhere/sorted -size 1KB", "make file", 1},
		{"-dir /nowhere", "make a directory", 1},
	} {
		out, err := run(t, c.args)
		if system.ExitCode(err) != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
		if c.code == 0 && strings.Count(out, "\n") != 6 || c.code != 0 && out != "" {
			t.Errorf("%q reports\n%s", c.args, out)
		}
	}
}

// TestReport: the report says what was spilled; the file that is kept is in order, and the one that was given stays.
func TestReport(t *testing.T) {
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	var records []byte
	for i := range uint64(20_000) {
		records = record(records, 7, i)
	}
	if err := os.WriteFile(in, records, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := run(t, "-in "+in+" -out "+out+" -memory 500KB")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^spilled +[1-9][0-9.]*[KM]B$`).MatchString(report) || !strings.Contains(report, "20000 records") {
		t.Errorf("the report is\n%s", report)
	}
	got, err := os.ReadFile(out)
	if err != nil || !bytes.Equal(got, inOrder(records)) {
		t.Errorf("the file is not in order: %v", err)
	}
	if left, err := os.ReadFile(in); err != nil || !bytes.Equal(left, records) {
		t.Errorf("the input has changed: %v", err)
	}
}
