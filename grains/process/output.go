package process

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	maxLine  = 4 << 10 // bytes: what is longer is several lines
	keptText = 20      // lines for an ExitError
)

// output makes lines of what a child prints.
type output struct {
	line func(string)
	part []byte // a line that has not ended
	mu   sync.Mutex
	last []string // the last lines; guarded by mu
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexAny(p[:min(len(p), maxLine-len(o.part))], "\n\r") // a bar of progress ends with \r
		if i < 0 {
			i = min(len(p), maxLine-len(o.part))
			o.part = append(o.part, p[:i]...)
			p = p[i:]
			if len(o.part) == maxLine {
				o.flush()
			}
			continue
		}
		o.part = append(o.part, p[:i]...)
		p = p[i+1:]
		o.flush()
	}
	return n, nil
}

// flush ends the line.
func (o *output) flush() {
	if len(o.part) == 0 {
		return
	}
	s := printable(o.part)
	o.part = o.part[:0]
	o.line(s)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.last) == keptText {
		o.last = o.last[1:]
	}
	o.last = append(o.last, s)
}

// tail is what was printed last.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.last, "\n")
}

// printable is a line as a terminal can bear it: quoted where it is no text.
func printable(b []byte) string {
	text := utf8.Valid(b)
	for _, r := range string(b) {
		text = text && (unicode.IsPrint(r) || r == '\t')
	}
	if text {
		return string(b)
	}
	return strconv.Quote(string(b))
}
