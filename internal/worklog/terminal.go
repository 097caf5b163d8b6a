package worklog

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/printable"
)

// foldFor is how long a line that several nodes wrote is held back after the first of them.
const foldFor = 2 * time.Second

// maxFolds bounds the lines that are remembered meanwhile.
const maxFolds = 1024

// Terminal shows lines. Those of people have the function and the node in front, and what several nodes wrote alike is shown once
// when it comes first, and once more with their number.
type Terminal struct {
	out  io.Writer
	view *View // nil: lines are shown as JSON, all of them

	mu    sync.Mutex // guards the rest, and the writer
	folds map[string]*fold
	order []*fold
	timer *time.Timer // nil while there are no folds
}

// fold is a line that was shown.
type fold struct {
	line  inspect.LogLine
	nodes map[raysys.NodeID]bool // others that wrote it since
	times int
}

// NewTerminal shows lines on out: to people, or as JSON.
func NewTerminal(out io.Writer, people bool) *Terminal {
	t := &Terminal{out: out}
	if people {
		t.view = &View{Node: true, Colour: true}
	}
	return t
}

// Show shows lines of a node, and how many were omitted before the last.
func (t *Terminal) Show(node raysys.NodeID, lines []json.RawMessage, omitted int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, raw := range lines {
		l, ok := Parse(raw)
		if !ok {
			continue // a later version
		}
		l.Node = node
		t.show(raw, &l)
	}
	if omitted > 0 {
		l := inspect.LogLine{Node: node, Output: Supervisor, Time: time.Now(), Text: fmt.Sprintf("omitted %d lines: a node sends at most %d a second", omitted, perSecond)}
		t.show(named(plain(Supervisor, []byte(l.Text), l.Time), node), &l)
	}
}

func (t *Terminal) show(raw []byte, l *inspect.LogLine) {
	if t.view == nil {
		if l.Driver == "" {
			raw = named(raw, l.Node)
		}
		raw = printable.JSON(raw)
		t.write(append(raw[:len(raw):len(raw)], '\n'))
		return
	}
	if !strings.ContainsFunc(l.Text, unicode.IsLetter) || l.Output == Supervisor {
		t.print(l, *t.view) // numbers are results
		return
	}
	key := strings.Join([]string{l.Function, l.Output, l.Level, l.Text, string(l.Fields)}, "\x00")
	f := t.folds[key]
	switch {
	case f != nil && f.line.Node != l.Node:
		f.times++
		f.nodes[l.Node] = true
		return
	case f == nil && len(t.folds) < maxFolds:
		if t.folds == nil {
			t.folds = map[string]*fold{}
		}
		f = &fold{line: *l, nodes: map[raysys.NodeID]bool{}}
		t.folds[key] = f
		t.order = append(t.order, f)
		if t.timer == nil {
			t.timer = time.AfterFunc(foldFor, t.Flush)
		}
	}
	t.print(l, *t.view)
}

// named puts the node's name into a line of plain output.
func named(raw []byte, node raysys.NodeID) []byte {
	name, _ := json.Marshal(node)
	return append(append([]byte(`{"node":`), name...), append([]byte(","), raw[1:]...)...)
}

func (t *Terminal) print(l *inspect.LogLine, v View) {
	t.write(append(v.Append(nil, l), '\n'))
}

func (t *Terminal) write(line []byte) { _, _ = t.out.Write(line) } // a terminal that is gone ends nothing

// Flush shows what was held back.
func (t *Terminal) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.order {
		if f.times == 0 {
			continue
		}
		v := *t.view
		for n := range f.nodes {
			if len(f.nodes) == 1 {
				f.line.Node = n
			}
		}
		if len(f.nodes) > 1 {
			v.Node, f.line.Function = false, strings.TrimSpace(fmt.Sprintf("%s %d nodes", f.line.Function, len(f.nodes)))
		}
		if f.times > 1 {
			f.line.Text = fmt.Sprintf("%s [%d times]", f.line.Text, f.times)
		}
		t.print(&f.line, v)
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.folds, t.order, t.timer = nil, nil, nil
}
