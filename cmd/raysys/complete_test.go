package main

import (
	"errors"
	"strings"
	"testing"
)

// TestCompletion: the help names it, and Tab after drain, stack and --node gives the names of the nodes, once.
func TestCompletion(t *testing.T) {
	f := &fakeCluster{}
	if out, _, code := ask(t, f.cluster(nil), "--help"); code != 0 || !strings.Contains(out, "completion ") {
		t.Errorf("exit %d; the help does not name completion:\n%s", code, out)
	}
	for _, c := range []struct {
		args  []string
		err   error
		names string
	}{
		{[]string{"drain", ""}, nil, "a\tworker\nb\tworker\n"},
		{[]string{"stack", ""}, nil, "a\tworker\nb\tworker\n"},
		{[]string{"list", "tasks", "--node", ""}, nil, "a\tworker\nb\tworker\n"},
		{[]string{"drain", "a", ""}, nil, ""},
		{[]string{"drain", "--consul", "x", ""}, nil, ""},
		{[]string{"drain", ""}, errors.New("away"), ""},
	} {
		f := &fakeCluster{}
		out, _, code := ask(t, f.cluster(c.err), append([]string{"__complete"}, c.args...)...)
		if code != 0 || out != c.names+":4\n" { // 4: no files
			t.Errorf("%v: exit %d, %q, want the names %q", c.args, code, out, c.names)
		}
		if f.closed != f.opened {
			t.Errorf("%v: connected %d times, closed %d times", c.args, f.opened, f.closed)
		}
	}
}
