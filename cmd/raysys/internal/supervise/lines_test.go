package supervise_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for in, want := range map[string]string{
		"":                    "",
		"one\ntwo\n":          "n | one\nn | two\n",
		"no end":              "n | no end\n",
		"dos\r\n\n":           "n | dos\nn | \n",
		long + "yy\n" + "z\n": "n | " + long + "\nn | yy\nn | z\n",
	} {
		var out bytes.Buffer
		supervise.NewLines("n | ").Copy(&out, strings.NewReader(in))
		if got := out.String(); got != want {
			t.Errorf("%.30q (%d bytes) gave %.60q (%d bytes), want %d", in, len(in), got, len(got), len(want))
		}
	}
}

type broken struct{ writes int }

func (b *broken) Write([]byte) (int, error) { b.writes++; return 0, errors.New("nobody reads") }

// The program goes on when nobody reads what it says, and its last lines are kept all the same.
func TestLinesToNobody(t *testing.T) {
	l := supervise.NewLines("")
	var b broken
	l.Copy(&b, strings.NewReader("a\nb\n"))
	if diff := cmp.Diff([]string{"a", "b"}, l.Last()); diff != "" || b.writes != 2 {
		t.Errorf("%d writes\n%s", b.writes, diff)
	}
	if last := l.Last(); last != nil {
		t.Errorf("still there: %q", last)
	}
}

// What killed a Go program comes before a stack that is longer than what is kept.
func TestLastLines(t *testing.T) {
	var in strings.Builder
	in.WriteString("up\npanic: no such file\n")
	for i := range 100 {
		fmt.Fprintf(&in, "frame %d %s\n", i, strings.Repeat("y", 1000))
	}
	l := supervise.NewLines("")
	var out bytes.Buffer
	l.Copy(&out, strings.NewReader(in.String()))
	last := l.Last()
	if len(last) != 22 || last[0] != "panic: no such file" || last[1] != "..." || !strings.HasPrefix(last[2], "frame 80 ") || len(last[21]) != 512 {
		t.Errorf("%d lines: %.100q", len(last), last)
	}
}

func TestWriter(t *testing.T) {
	l := supervise.NewLines("n: ")
	var out bytes.Buffer
	if n, err := fmt.Fprint(l.Writer(&out), "one\ntwo"); n != 7 || err != nil || out.String() != "n: one\nn: two\n" {
		t.Errorf("%d, %v: %q", n, err, out.String())
	}
	if _, err := l.Writer(&broken{}).Write([]byte("x")); err == nil {
		t.Error("no error of the writer below")
	}
	if last := l.Last(); last != nil {
		t.Errorf("the supervisor's own words are among the program's: %q", last)
	}
}
