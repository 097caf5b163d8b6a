package progress

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/raysys/raysys/internal/nodelog"
)

// Variable with the value off has nothing be shown on the standard error.
const Variable = "RAYSYS_PROGRESS"

const (
	clear  = "\r\x1b[K"
	noWrap = "\x1b[?7l" // a line that is too long is cut off: a wrapped one could not be replaced
	wrap   = "\x1b[?7h"
)

// Line is a line of text that says how work goes. Any goroutine may use it.
type Line struct {
	w    io.Writer
	live bool
	text string // guarded by screen
}

// screen has the lines that are on terminals, in the order in which they came there. Whoever writes beside them holds its lock.
var screen struct {
	sync.Mutex
	lines []*Line
}

// NewLine makes a line on w: a terminal where it is a file that is one, or where it has a method Terminal() bool that says so. For a nil w it is a
// line on the standard error; nil, with RAYSYS_PROGRESS=off. A nil Line shows nothing.
func NewLine(w io.Writer) *Line {
	if w == nil {
		if os.Getenv(Variable) == "off" {
			return nil
		}
		w = os.Stderr
	}
	return &Line{w: w, live: terminal(w)}
}

func terminal(w io.Writer) bool {
	switch w := w.(type) {
	case *os.File:
		return nodelog.IsTerminal(w)
	case interface{ Terminal() bool }:
		return w.Terminal()
	}
	return false
}

// Live reports whether the line is on a terminal, and so may be drawn some ten times a second.
func (l *Line) Live() bool { return l != nil && l.live }

// Draw replaces the text. Where the line is not live it writes the text as one more line.
func (l *Line) Draw(text string) {
	switch {
	case l == nil:
	case !l.live:
		fmt.Fprintln(l.w, text)
	default:
		screen.Lock()
		defer screen.Unlock()
		if l.text = text; !slices.Contains(screen.lines, l) {
			screen.lines = append(screen.lines, l)
		}
		paint(l.w)
	}
}

// End leaves the text of the last Draw on the terminal, and goes to the next row.
func (l *Line) End() {
	screen.Lock()
	defer screen.Unlock()
	i := slices.Index(screen.lines, l)
	if i < 0 {
		return
	}
	screen.lines = slices.Delete(screen.lines, i, i+1)
	if len(on(l.w)) > 0 {
		fmt.Fprint(l.w, clear+noWrap+l.text+wrap)
	}
	fmt.Fprintln(l.w)
	paint(l.w)
}

// on has the texts that are on a terminal.
func on(w io.Writer) (texts []string) {
	for _, l := range screen.lines {
		if l.w == w {
			texts = append(texts, l.text)
		}
	}
	return texts
}

// paint draws the row of a terminal anew.
func paint(w io.Writer) {
	if texts := on(w); len(texts) > 0 {
		fmt.Fprint(w, clear+noWrap+strings.Join(texts, " | ")+wrap)
	}
}

// Writer returns a writer to w that clears the row of the lines that are live before it writes, and draws them again below what it has written. A write
// should end with the end of a line. Where w is no terminal it returns w itself.
func Writer(w io.Writer) io.Writer {
	if !terminal(w) {
		return w
	}
	return beside{w}
}

type beside struct{ w io.Writer }

func (b beside) Write(p []byte) (int, error) {
	screen.Lock()
	defer screen.Unlock()
	var rows []io.Writer
	for _, l := range screen.lines {
		if !slices.Contains(rows, l.w) {
			rows = append(rows, l.w)
			fmt.Fprint(l.w, clear)
		}
	}
	n, err := b.w.Write(p)
	if strings.HasSuffix(string(p), "\n") {
		for _, w := range rows {
			paint(w)
		}
	}
	return n, err
}
