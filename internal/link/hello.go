package link

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// The handshake, dialer on the left:
//
//	hello    ──▶
//	         ◀── hello, or rejection
//	confirm  ──▶      or rejection
//
// On a plain connection both sides prove themselves between the first hello and its answer, see proof.go.
//
// Each message is a preamble (magic, message type, length of the body) and a body of fields. The preamble is the same
// in every version of the protocol, so that any two can at least tell each other why they cannot talk.
const (
	magic        = "raysys\x01"
	preambleSize = len(magic) + 1 + 4

	// maxHello is twice the size of the largest function table expected: ten thousand entries of 50 bytes.
	maxHello = 1 << 20
)

type messageType uint8

const (
	typeHello     messageType = 1
	typeRejection messageType = 2
	typeConfirm   messageType = 3
	typeBulk      messageType = 4 // on a bulk connection: a hello of cluster, node, incarnation, to, session and nonce alone
)

// The protocol versions that this program speaks. Nodes use the highest that both do.
const (
	protocolMin = 1
	protocolMax = 1
)

// hello is the first message each way. A field that is zero is not sent. What a later version understands beyond protocol
// version 1 it says in a field more, which this one skips.
type hello struct {
	id                       Identity
	protocolMin, protocolMax uint64
	to                       raysys.NodeID // the node that the dialer wants
	session                  uint64        // drawn by the dialer
	gone                     uint64        // the session that the other side insisted on, which is over
	order                    uint64        // of this session among those that the elder confirmed
	window                   [classes]uint64
	maxFrame                 uint64
	maxBulk                  uint64
	nonce                    string // of the dialer, where it can prove itself
}

// Tags of a hello, beyond those of an identity.
const (
	tagProtocolMin = 20
	tagProtocolMax = 21
	tagTo          = 22
	tagSession     = 23
	tagGone        = 24
	tagOrder       = 25
	tagMaxFrame    = 26
	tagMaxBulk     = 27
	tagNonce       = 28
	tagWindow      = 30 // to 32, one per class
)

func (h *hello) fields() []field {
	list := []field{{tagProtocolMin, &h.protocolMin}, {tagProtocolMax, &h.protocolMax}}
	list = append(list, h.id.fields()...)
	list = append(list, []field{
		{tagTo, (*string)(&h.to)},
		{tagSession, &h.session},
		{tagGone, &h.gone},
		{tagOrder, &h.order},
		{tagMaxFrame, &h.maxFrame},
		{tagMaxBulk, &h.maxBulk},
		{tagNonce, &h.nonce},
	}...)
	for c := range h.window {
		list = append(list, field{tagWindow + uint64(c), &h.window[c]})
	}
	return list
}

func (h *hello) append(dst []byte) []byte { return appendFields(dst, h.fields()) }

func (h *hello) read(b []byte) error { return readFields(b, h.fields()) }

// protocol returns the highest version that both sides speak.
func protocol(ownMin, ownMax, peerMin, peerMax uint64) (uint64, error) {
	v := min(ownMax, peerMax)
	if v < ownMin || v < peerMin || v == 0 {
		return 0, reject(CodeProtocol, "one side speaks versions %d to %d, the other %d to %d: upgrade the older program", ownMin, ownMax, peerMin, peerMax)
	}
	return v, nil
}

const (
	tagCode             = 1
	tagReason           = 2
	tagRejectionSession = 3
)

func (r *Rejection) fields(code *uint64, text *string) []field {
	return []field{{tagCode, code}, {tagReason, text}, {tagRejectionSession, &r.session}}
}

func (r *Rejection) append(dst []byte) []byte {
	code, text := uint64(r.Code), r.Text[:min(len(r.Text), maxText)]
	return appendFields(dst, r.fields(&code, &text))
}

func (r *Rejection) read(b []byte) error {
	var code uint64
	err := readFields(b, r.fields(&code, &r.Text))
	r.Remote = true
	if code <= 255 { // else a code of a later version
		r.Code = Code(code)
	}
	return err
}

// writeMessage writes a whole message with one call: it may be all that the connection carries for a while.
func writeMessage(w io.Writer, t messageType, body []byte) error {
	b := make([]byte, 0, preambleSize+len(body))
	b = append(b, magic...)
	b = append(b, byte(t))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	_, err := w.Write(append(b, body...))
	return err
}

// readMessage reads one message and nothing beyond it. Memory is taken for the bytes that have come, not for the
// announced length.
func readMessage(r io.Reader) (messageType, []byte, error) {
	var p [preambleSize]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return 0, nil, err
	}
	if string(p[:len(magic)]) != magic {
		return 0, nil, reject(CodeMalformed, "this is not the raysys protocol: it begins with %q", p[:len(magic)])
	}
	size := binary.LittleEndian.Uint32(p[len(magic)+1:])
	if size > maxHello {
		return 0, nil, reject(CodeMalformed, "a message of %d bytes, the limit is %d", size, maxHello)
	}
	const step = 16 << 10
	var body []byte
	for len(body) < int(size) {
		n := min(step, int(size)-len(body))
		body = append(body, make([]byte, n)...)
		if _, err := io.ReadFull(r, body[len(body)-n:]); err != nil {
			return 0, nil, fmt.Errorf("read handshake: %w", err)
		}
	}
	return messageType(p[len(magic)]), body, nil
}

// classes is the number of those that the express connection carries: all but wire.Bulk, which has a connection of its own.
const classes = 3

// The link's own kinds. The numbers are on the wire and never change.
const (
	kindPing       wire.Kind = 1 // 8 bytes, which the pong returns
	kindPong       wire.Kind = 2
	kindCredit     wire.Kind = 3 // class (1 byte), bytes granted (4)
	kindBye        wire.Kind = 4 // the reason, as text: the last frame of a session
	kindBulkWanted wire.Kind = 5 // the sender wants a bulk connection, and the receiver is the side that dials
	kindCounts     wire.Kind = 6 // how many frames were sent before this one (read.go)

	// From here on a frame takes credit of its class.
	kindRelayOpen  wire.Kind = 16
	kindRelayData  wire.Kind = 17
	kindRelayClose wire.Kind = 18
	kindRelayMore  wire.Kind = 19

	firstCredited wire.Kind = 16
)

// A frame is a header and a payload. The header, little-endian: payload length (4 bytes), kind (1), class (1), flags
// (2). A reader skips flags it does not know.
const headerSize = 8

// flagBody says of a bulk frame that its payload is the length of a head (1 byte), the head and a body.
const flagBody uint16 = 1

type header struct {
	length int
	kind   wire.Kind
	class  wire.Class
	flags  uint16
}

// readHeader takes the first headerSize bytes of b apart.
func readHeader(b []byte) header {
	_ = b[headerSize-1]
	return header{
		length: int(binary.LittleEndian.Uint32(b)),
		kind:   wire.Kind(b[4]),
		class:  wire.Class(b[5]),
		flags:  binary.LittleEndian.Uint16(b[6:]),
	}
}

// appendHeader appends the header of a frame without flags.
func appendHeader(dst []byte, length int, kind wire.Kind, class wire.Class) []byte {
	n := uint32(length)
	return append(dst, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(kind), byte(class), 0, 0)
}

// setFlags sets the flags of the header that b begins with.
func setFlags(b []byte, flags uint16) { binary.LittleEndian.PutUint16(b[6:], flags) }

// check refuses what no sender of this protocol may send, before anything is made room for.
func (h header) check(limit int, bulk bool) error {
	switch {
	case h.length > limit:
		return fmt.Errorf("%w: a frame of kind %d says it has %d bytes, the limit is %d", ErrCorrupt, h.kind, h.length, limit)
	case bulk != (h.class == wire.Bulk) || h.class > wire.Bulk:
		return fmt.Errorf("%w: a frame of kind %d is of %s", ErrCorrupt, h.kind, h.class)
	case bulk && h.kind < wire.FirstKind && h.kind != kindCounts:
		return fmt.Errorf("%w: a frame of kind %d came over the bulk connection", ErrCorrupt, h.kind)
	}
	return nil
}

// split hands the whole frames in b to each and returns how many bytes they took. An error from each or in a header
// ends it.
func split(b []byte, limit int, each func(h header, payload []byte) error) (taken int, err error) {
	for len(b)-taken >= headerSize {
		h := readHeader(b[taken:])
		if err := h.check(limit, false); err != nil {
			return taken, err
		}
		end := taken + headerSize + h.length
		if len(b) < end {
			break
		}
		if err := each(h, b[taken+headerSize:end:end]); err != nil {
			return taken, err
		}
		taken = end
	}
	return taken, nil
}

// A handshake's body is a list of fields: tag, length, bytes. A reader skips tags it does not know, so that a version
// may add fields (rule C4). Tags are never used again for something else.

// field is one of a message: its tag, and where its value is.
type field struct {
	tag uint64
	at  any // *uint64, *fixed64, *string or *[]Function
}

// fixed64 is a number that takes eight bytes, and not a varint: a hash.
type fixed64 uint64

// appendFields appends the fields in their order. Zero and an empty text are left out: that is what a missing field means.
func appendFields(dst []byte, list []field) []byte {
	for _, f := range list {
		switch at := f.at.(type) {
		case *uint64:
			if *at != 0 {
				dst = appendField(dst, f.tag, binary.AppendUvarint(nil, *at))
			}
		case *fixed64:
			dst = appendField(dst, f.tag, binary.LittleEndian.AppendUint64(nil, uint64(*at)))
		case *string:
			if *at != "" {
				dst = appendField(dst, f.tag, *at)
			}
		case *[]Function:
			var entry []byte
			for i := range *at {
				entry = appendFields(entry[:0], (*at)[i].fields())
				dst = appendField(dst, f.tag, entry)
			}
		}
	}
	return dst
}

func appendField[B ~string | ~[]byte](dst []byte, tag uint64, value B) []byte {
	dst = binary.AppendUvarint(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// readFields reads the fields of list from b.
func readFields(b []byte, list []field) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("%w: a field's tag is cut off", ErrCorrupt)
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return fmt.Errorf("%w: field %d is longer than what holds it", ErrCorrupt, tag)
		}
		b = b[n+m:]
		if i := slices.IndexFunc(list, func(f field) bool { return f.tag == tag }); i >= 0 {
			if err := list[i].read(b[:size]); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

// maxText bounds every name in a handshake.
const maxText = 4096

func (f field) read(value []byte) error {
	switch at := f.at.(type) {
	case *uint64:
		v, n := binary.Uvarint(value)
		if n <= 0 || n != len(value) {
			return fmt.Errorf("%w: field %d is no number", ErrCorrupt, f.tag)
		}
		*at = v
	case *fixed64:
		if len(value) != 8 {
			return fmt.Errorf("%w: field %d has %d bytes, not 8", ErrCorrupt, f.tag, len(value))
		}
		*at = fixed64(binary.LittleEndian.Uint64(value))
	case *string:
		if len(value) > maxText {
			return fmt.Errorf("%w: field %d has %d bytes, the limit is %d", ErrCorrupt, f.tag, len(value), maxText)
		}
		*at = string(value)
	case *[]Function:
		if len(*at) == maxFunctions {
			return fmt.Errorf("%w: more than %d functions", ErrCorrupt, maxFunctions)
		}
		var entry Function
		err := readFields(value, entry.fields())
		*at = append(*at, entry)
		return err
	}
	return nil
}
