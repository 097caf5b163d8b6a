package process

import (
	"io"
	"testing"
)

// What a child in Go needs, and the tests of the format.
type (
	Message   = message
	Described = described
)

const (
	CallFrame   = callFrame
	ResultFrame = resultFrame
	BeatFrame   = beatFrame
	SharedFrame = sharedFrame
)

var ReadFrame = readFrame

// Decoder reads frames of a child with such shared memory.
func Decoder(shared io.ReaderAt) func(body []byte, kind frameKind) (Message, error) {
	return (&decoder{limit: 1 << 20, shared: shared}).decode
}

// Decode reads the body of a frame that has its tensors.
func Decode(body []byte) (Message, error) { return Decoder(nil)(body, resultFrame) }

func (m *message) Write(w io.Writer, kind frameKind, limit int) error { return m.write(w, kind, limit) }

func (d described) Tensor() Tensor { return d.tensor() }

// Describe is a tensor in a message.
func Describe(name string, t Tensor) Described { return described{name, t.DType, t.Shape, t.Data} }

// Changed is where a text that a child has sent would be another.
func Changed(b []byte) string { return changed(b, false) }

// Lines is what of the pieces of an output is logged, and what is kept of it.
func Lines(pieces ...string) (lines, kept []string) {
	o := output{line: func(s string) { lines = append(lines, s) }}
	for _, p := range pieces {
		_, _ = o.Write([]byte(p))
	}
	o.flush()
	return lines, o.last
}

// StartsAtOnce has so many children start at a time during a test.
func StartsAtOnce(t *testing.T, n int) {
	before := starts
	starts = make(chan struct{}, n)
	t.Cleanup(func() { starts = before })
}
