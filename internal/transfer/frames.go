package transfer

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// The frames on the wire. A slot is the receiver's number for one conversation; everything about it carries the slot.
// Fields that a later version appends to a frame are not read (rule C4).

const (
	maxAsked  = 1 << 10 // chunks that one stream keeps asked for
	maxNodes  = 1 << 8  // in one list
	maxText   = 1 << 10
	headBytes = 24 // of a chunk at most: two varints and a sum
)

// code says why something is not given. The numbers are on the wire.
type code uint8

const (
	codeOther   code = 0
	codeLacks   code = 1 // the object is not there
	codeVersion code = 2 // another version is
	codeStarved code = 3 // it is still being received, and serves only receivers that were sent there
	codeFailed  code = 4 // the store could not give it
	codeBusy    code = 5 // too many conversations
	codeClosed  code = 6 // the node ends
	codeGone    code = 7 // the node cannot be reached, or stood still
	codeCorrupt code = 8 // its bytes were wrong
)

func (c code) String() string {
	texts := [...]string{
		"refused", "it does not have it", "it has another version", "it is still receiving it itself", "its store failed", "it is busy", "it ends",
		"it does not answer", "it sent wrong bytes",
	}
	if int(c) < len(texts) {
		return texts[c]
	}
	return fmt.Sprintf("refused with code %d", uint8(c))
}

// failure is a source that did not do, as one receiver tells another source.
type failure struct {
	key  core.NodeKey
	code code
}

// pull opens a conversation, or repeats it.
type pull struct {
	slot   uint64
	want   objectstore.Version // Nonce 0: whichever there is
	sent   bool                // a source of the whole object sent the receiver here
	host   string              // where the receiver can map memory; empty for nowhere
	failed []failure           // the nodes that the receiver does not want to be sent to
}

func (p *pull) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, p.slot)
	dst = appendVersion(dst, p.want)
	dst = wire.AppendBytes(appendBool(dst, p.sent), p.host)
	dst = binary.AppendUvarint(dst, uint64(len(p.failed)))
	for _, f := range p.failed {
		dst = append(appendKey(dst, f.key), byte(f.code))
	}
	return dst
}

func (p *pull) read(b []byte) error {
	r := wire.NewReader(b)
	p.slot, p.want, p.sent, p.host = r.Uvarint(), readVersion(&r), r.Byte() == 1, readText(&r)
	for range readCount(&r) {
		p.failed = append(p.failed, failure{readKey(&r), code(r.Byte())})
	}
	return r.Err()
}

// span is a run of chunks.
type span struct{ first, n int }

func appendAsk(dst []byte, slot uint64, spans []span) []byte {
	dst = binary.AppendUvarint(dst, slot)
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for _, s := range spans {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(s.first)), uint64(s.n))
	}
	return dst
}

func readAsk(b []byte) (slot uint64, spans []span, err error) {
	r := wire.NewReader(b)
	slot = r.Uvarint()
	n := r.Count(2)
	if n > maxAsked {
		return 0, nil, wire.ErrCorrupt
	}
	spans = make([]span, n)
	total := uint64(0)
	for i := range spans {
		first, n := r.Uvarint(), r.Uvarint()
		if total += n; first > 1<<31 || n == 0 || total > maxAsked {
			return 0, nil, wire.ErrCorrupt
		}
		spans[i] = span{int(first), int(n)}
	}
	return slot, spans, r.Err()
}

// appendHead is what goes before a chunk: its sum comes with it.
func appendHead(dst []byte, slot uint64, chunk int, sum uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(binary.AppendUvarint(dst, slot), uint64(chunk)), sum)
}

func readHead(b []byte) (slot uint64, chunk int, sum uint32, err error) {
	r := wire.NewReader(b)
	slot = r.Uvarint()
	n := r.Uvarint()
	sum = readSum(&r)
	if n > 1<<31 {
		return 0, 0, 0, wire.ErrCorrupt
	}
	return slot, int(n), sum, r.Err()
}

// appendEnd tells that a conversation is over, and whether the receiver has the whole object now.
func appendEnd(dst []byte, slot uint64, whole bool) []byte {
	return appendBool(binary.AppendUvarint(dst, slot), whole)
}

func readEnd(b []byte) (slot uint64, whole bool, err error) {
	r := wire.NewReader(b)
	slot, whole = r.Uvarint(), r.Byte() == 1
	return slot, whole, r.Err()
}
