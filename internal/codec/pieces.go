package codec

import (
	"reflect"

	"github.com/raysys/raysys/internal/core"
)

// Large is the length from which Pieces and Stream leave a block where it is. A shorter one is copied: one more piece
// costs about as much as this copy.
const Large = 16 << 10

// streamBlock is about how much Stream gathers before it emits, in bytes.
const streamBlock = 256 << 10

// splitter takes large blocks apart from the bytes around them: as cuts, or by emitting everything in order.
type splitter struct {
	cuts []cut
	emit func([]byte) error
	err  error // of emit; nothing more is emitted then
}

// cut is a block that belongs between dst[:at] and dst[at:].
type cut struct {
	at   int
	data []byte
}

// cut leaves data out of dst.
func (e pass) cut(dst, data []byte) []byte {
	s := e.split
	if s.emit == nil {
		s.cuts = append(s.cuts, cut{len(dst), data[:len(data):len(data)]})
		return dst
	}
	s.send(dst)
	s.send(data)
	return dst[:0]
}

// pass emits dst when enough has gathered. It stands between two items of a list or map, where no caller keeps an
// offset in dst.
func (s *splitter) pass(dst []byte) []byte {
	if s.emit == nil || len(dst) < streamBlock {
		return dst
	}
	s.send(dst)
	return dst[:0]
}

func (s *splitter) send(b []byte) {
	if s.err == nil && len(b) > 0 {
		s.err = s.emit(b)
	}
}

// Pieces returns the encoding of v in pieces that, joined, are what Append writes. Pieces at even positions are
// memory of their own; those at odd positions are large blocks of numbers, bytes or text of v itself, not copied. So
// v must not be changed while they are in use, and they must not be written to. References go to *refs as in Append.
func (p *Plan) Pieces(v reflect.Value, refs *[]*core.Future) ([][]byte, error) {
	var s splitter
	own, err := p.appendPass(nil, p.pointer(v), pass{refs: refs, split: &s})
	if err != nil {
		return nil, err
	}
	pieces := make([][]byte, 0, 2*len(s.cuts)+1)
	from := 0
	for _, c := range s.cuts {
		pieces = append(pieces, own[from:c.at:c.at], c.data)
		from = c.at
	}
	if from < len(own) {
		pieces = append(pieces, own[from:])
	}
	return pieces, nil
}

// Stream emits the encoding of v in blocks that, joined, are what Append writes, with little memory of its own whatever
// v holds, unless one type in it encodes itself. A block is lent for the time of the call, and emit must not write to it.
// References go to *refs as in Append. An error of emit is returned as it is.
func (p *Plan) Stream(v reflect.Value, refs *[]*core.Future, emit func([]byte) error) error {
	s := splitter{emit: emit}
	rest, err := p.appendPass(nil, p.pointer(v), pass{refs: refs, split: &s})
	if err != nil {
		return err
	}
	s.send(rest)
	return s.err
}
