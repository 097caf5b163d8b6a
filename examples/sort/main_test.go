package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestExitCodes(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, make([]byte, 150), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, talk string
		code       int
	}{
		{"-size 1MB -memory 400KB -seed 3", "", 0},
		{"-size 0", "", 0},
		{"-size much", `invalid value "much" for flag -size: give bytes, such as 256MB or 1GiB`, 2},
		{"-size -1", `give bytes, such as`, 2},
		{"-size 1e30GB", `give bytes, such as`, 2},
		{"-parallel 0", "parallel is 1 or more", 2},
		{"-parts -1", "parts and partitions are 0 or more", 2},
		{"-bogus", "flag provided but not defined: -bogus", 2},
		{"now", `sort takes no argument, and was given "now"`, 2},
		{"-in " + odd, "has 150 bytes, which are no records of 100", 2},
		{"-in /nowhere", "read records", 1},
		{"-out /nowhere/sorted -size 1KB", "make file", 1},
		{"-dir /nowhere", "make a directory", 1},
	} {
		var stdout, stderr bytes.Buffer
		t.Setenv("RAYSYS_CONSUL", "")
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.talk) {
			t.Errorf("%q: exit %d, want %d; standard error %q", c.args, code, c.code, stderr.String())
		}
		if c.code == 0 && strings.Count(stdout.String(), "\n") != 6 || c.code != 0 && stdout.Len() > 0 {
			t.Errorf("%q reports\n%s", c.args, stdout.String())
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
	var stdout, stderr bytes.Buffer
	t.Setenv("RAYSYS_CONSUL", "")
	if code := run(t.Context(), []string{"-in", in, "-out", out, "-memory", "500KB"}, &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	if !regexp.MustCompile(`(?m)^spilled +[1-9][0-9.]*[KM]B$`).Match(stdout.Bytes()) || !strings.Contains(stdout.String(), "20000 records") {
		t.Errorf("the report is\n%s", stdout.String())
	}
	got, err := os.ReadFile(out)
	if err != nil || !bytes.Equal(got, inOrder(records)) {
		t.Errorf("the file is not in order: %v", err)
	}
	if left, err := os.ReadFile(in); err != nil || !bytes.Equal(left, records) {
		t.Errorf("the input has changed: %v", err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var stdout, stderr bytes.Buffer
	if code := run(ctx, nil, &stdout, &stderr); code != 1 {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}
