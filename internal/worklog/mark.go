package worklog

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strconv"
)

// MarkVariable tells the program of a node its Mark.
const MarkVariable = "RAYSYS_LOG_MARK"

// Mark is in front of what a node itself writes to its outputs below raysys node: a line of its log, the number up to which it has written, or what is
// to be shown and not kept. raysys node draws one for each of its starts: a text that work prints cannot know it, and so looks like none of these.
type Mark string

// newMark draws a mark.
func newMark() Mark { return Mark(rand.Text()) }

// String is the mark as it is written. Below a raysys node of a version without marks it is what that looks for before a number.
func (m Mark) String() string { return "\x1e\x1eraysys " + cmp.Or(string(m), "mark") + " " }

// Writer marks what is written to w, each write being one line. Without a mark it is w.
func (m Mark) Writer(w io.Writer) io.Writer {
	if m == "" {
		return w
	}
	return marking{w, []byte(m.String())}
}

type marking struct {
	w    io.Writer
	mark []byte
}

func (m marking) Write(line []byte) (int, error) {
	if _, err := m.w.Write(append(m.mark[:len(m.mark):len(m.mark)], line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// SayUnkept writes a line to w that people may see and no log may have, such as one with a secret.
func (m Mark) SayUnkept(w io.Writer, line string) {
	if m != "" {
		line = m.String() + unkept + line
	}
	fmt.Fprintln(w, line)
}

// unkept follows the mark of a line that is shown and not kept.
const unkept = "!"

// writeNumber writes a marked number to the outputs of this process.
func (m Mark) writeNumber(n uint64) {
	line := []byte(m.String() + strconv.FormatUint(n, 10) + "\n")
	_, _ = os.Stdout.Write(line)
	_, _ = os.Stderr.Write(line)
}

// cut splits a line at the mark.
func (m Mark) cut(line []byte) (before, own []byte, marked bool) {
	return bytes.Cut(line, []byte(m.String()))
}
