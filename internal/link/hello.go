package link

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/raysys/raysys"
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
