package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

const (
	// maxLine is where a line is cut in two, so that a program that never ends one costs no memory.
	maxLine = 64 << 10
	// kept and keptLine bound what is remembered for the report of a crash: enough for a panic's message and the top of
	// its stack.
	kept     = 20
	keptLine = 512
)

// causes begin the line that says why a Go program died; the stacks after it may be longer than what is kept.
var causes = [][]byte{[]byte("panic: "), []byte("fatal error: ")}

// Lines puts a prefix before every line of several streams and keeps the lines whole. The zero value is no use: make it
// with NewLines.
type Lines struct {
	// Keep, where it is set, is given each line of a program with the name of the stream, and returns what is passed on of it: any number of
	// lines. Calls do not overlap.
	Keep func(stream string, line []byte) []byte

	prefix []byte
	mu     sync.Mutex // guards the writers of all streams, and the rest
	last   []string
	cause  string // the line that began with one of causes
}

// NewLines returns Lines with this prefix.
func NewLines(prefix string) *Lines { return &Lines{prefix: []byte(prefix)} }

// Copy passes lines on from r to w until r ends. When w fails it goes on reading, so that the program never waits for
// a reader that is gone.
func (l *Lines) Copy(w io.Writer, r io.Reader) { l.copy("", w, r) }

// copy is Copy for a stream of that name.
func (l *Lines) copy(stream string, w io.Writer, r io.Reader) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			l.line(stream, w, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *Lines) line(stream string, w io.Writer, line []byte) {
	line = bytes.TrimRight(line, "\r\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Keep == nil {
		l.pass(w, line)
		return
	}
	shown := l.Keep(stream, line)
	if len(shown) == 0 && len(line) == 0 {
		l.pass(w, line)
	}
	for one := range bytes.Lines(shown) {
		l.pass(w, bytes.TrimSuffix(one, []byte{'\n'}))
	}
}

// pass passes on a line, in one write: others may write to the same file.
func (l *Lines) pass(w io.Writer, line []byte) {
	w.Write(slices.Concat(l.prefix, line, []byte{'\n'}))
	l.remember(line)
}

func (l *Lines) remember(line []byte) {
	text := string(line[:min(len(line), keptLine)])
	if l.cause == "" && slices.ContainsFunc(causes, func(c []byte) bool { return bytes.HasPrefix(line, c) }) {
		l.cause = text
	}
	if len(l.last) == kept {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, text)
}

// Last returns the last lines, after the one that named a panic, and forgets them.
func (l *Lines) Last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last
	if l.cause != "" && !slices.Contains(last, l.cause) {
		last = slices.Insert(last, 0, l.cause, "...")
	}
	l.last, l.cause = nil, ""
	return last
}

// Writer returns a writer that puts the prefix before each line written to it. A write should be whole lines.
func (l *Lines) Writer(w io.Writer) io.Writer { return prefixed{l, w} }

type prefixed struct {
	lines *Lines
	w     io.Writer
}

func (p prefixed) Write(b []byte) (int, error) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	for line := range bytes.Lines(b) {
		if _, err := p.w.Write(slices.Concat(p.lines.prefix, bytes.TrimRight(line, "\r\n"), []byte{'\n'})); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
