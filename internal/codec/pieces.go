package codec

import (
	"reflect"

	"github.com/raysys/raysys"
)

// Large is the length from which Pieces leaves a block where it is. A shorter one is copied: one more piece costs about
// as much as this copy.
const Large = 16 << 10

// cut is a block that belongs between dst[:at] and dst[at:].
type cut struct {
	at   int
	data []byte
}

// cut leaves data out of dst.
func (e pass) cut(dst, data []byte) []byte {
	*e.cuts = append(*e.cuts, cut{len(dst), data[:len(data):len(data)]})
	return dst
}

// Pieces returns the encoding of v in pieces that, joined, are what Append writes. Pieces at even positions are memory
// of their own; those at odd positions are large blocks of numbers, bytes or text of v itself, not copied. So v must not
// be changed while they are in use, and nobody may write to them. References go to *refs as in Append.
func (p *Plan) Pieces(v reflect.Value, refs *[]*raysys.Core) ([][]byte, error) {
	var cuts []cut
	own, err := p.appendPass(nil, p.pointer(v), pass{refs: refs, cuts: &cuts})
	if err != nil {
		return nil, err
	}
	pieces := make([][]byte, 0, 2*len(cuts)+1)
	from := 0
	for _, c := range cuts {
		pieces = append(pieces, own[from:c.at:c.at], c.data)
		from = c.at
	}
	if from < len(own) {
		pieces = append(pieces, own[from:])
	}
	return pieces, nil
}
