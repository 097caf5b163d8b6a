package worklog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
)

// said is a line of raysys.Logger.
func said(function, text string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"ts":"2026-01-02T15:04:05.678Z","level":"info","msg":%q,"node":"?","driver":"d","function":%q,"id":"1"}`, text, function))
}

// TestFold: what several nodes write alike is shown at once, and once more with their number; numbers, and what one node repeats, are all
// shown.
func TestFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		term := NewTerminal(&out, true)
		term.view.Colour = false
		show := func(node, text string) {
			term.Show(raysys.NodeID(node), []json.RawMessage{said("f", text)}, 0)
		}
		taken := func() (list []string) {
			term.mu.Lock()
			defer term.mu.Unlock()
			for line := range strings.Lines(out.String()) {
				_, rest, _ := strings.Cut(line, "INFO ")
				list = append(list, strings.TrimSuffix(rest, "\n"))
			}
			out.Reset()
			return list
		}
		expect := func(want ...string) {
			t.Helper()
			if got := taken(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		}
		for _, node := range []string{"a", "a", "b", "c", "b"} {
			show(node, "hello")
			show(node, "42")
		}
		show("b", "only b")
		show("a", "twice")
		show("b", "twice")
		expect("(f a) hello", "(f a) 42", "(f a) hello", "(f a) 42", "(f b) 42", "(f c) 42", "(f b) 42", "(f b) only b", "(f a) twice")
		<-time.After(foldFor + time.Second)
		synctest.Wait()
		expect("(f 2 nodes) hello [3 times]", "(f b) twice")
		show("b", "hello")
		term.Flush()
		expect("(f b) hello")

		term.Show("a", []json.RawMessage{plain("stdout", []byte("words"), time.Now()), json.RawMessage("{}")}, 7)
		if got := out.String(); got != "(a) words\n(a) omitted 7 lines: a node sends at most 1000 a second\n" {
			t.Errorf("%q", got)
		}
		for i := range 2 * maxFolds {
			show("a", fmt.Sprint("line ", i))
		}
		if len(term.folds) > maxFolds {
			t.Errorf("%d lines are remembered", len(term.folds))
		}
		term.Flush()
	})
}

// TestTerminalJSON: machines get all lines as they are, with their node.
func TestTerminalJSON(t *testing.T) {
	var out bytes.Buffer
	term := NewTerminal(&out, false)
	one := said("f", "x")
	for _, node := range []raysys.NodeID{"a", "b"} {
		term.Show(node, []json.RawMessage{one, plain("stdout", []byte("words"), time.Now())}, 1)
	}
	term.Flush()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 || lines[0] != string(one) || lines[3] != string(one) || !strings.HasPrefix(lines[4], `{"node":"b","ts":`) || !strings.Contains(lines[5], "omitted 1 lines") {
		t.Errorf("%q", lines)
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("no JSON: %s", l)
		}
	}
}
