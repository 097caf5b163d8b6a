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
	typeBulk      messageType = 4 // on a bulk connection: a hello of cluster, node, incarnation, to and session alone
)

// The protocol versions that this program speaks. Nodes use the highest that both do.
const (
	protocolMin = 1
	protocolMax = 1
)

// hello is the first message each way. A field that is zero is not sent.
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
	features                 uint64 // bits of what this side understands beyond protocol version 1
}

// The bits of features.
const (
	featureBodies = 1 << 0 // frames with flagBody
	featureCounts = 1 << 1 // kindCounts
)

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
	tagFeatures    = 28
	tagWindow      = 30 // to 32, one per class
)

func (h *hello) append(dst []byte) []byte {
	dst = appendNumber(dst, tagProtocolMin, h.protocolMin)
	dst = appendNumber(dst, tagProtocolMax, h.protocolMax)
	dst = h.id.append(dst)
	dst = appendText(dst, tagTo, h.to)
	dst = appendNumber(dst, tagSession, h.session)
	dst = appendNumber(dst, tagGone, h.gone)
	dst = appendNumber(dst, tagOrder, h.order)
	dst = appendNumber(dst, tagMaxFrame, h.maxFrame)
	dst = appendNumber(dst, tagMaxBulk, h.maxBulk)
	dst = appendNumber(dst, tagFeatures, h.features)
	for c, w := range h.window {
		dst = appendNumber(dst, tagWindow+uint64(c), w)
	}
	return dst
}

func (h *hello) read(b []byte) error {
	return readFields(b, func(tag uint64, value []byte) error {
		switch tag {
		case tagProtocolMin:
			return readNumber(tag, value, &h.protocolMin)
		case tagProtocolMax:
			return readNumber(tag, value, &h.protocolMax)
		case tagTo:
			return readText(tag, value, &h.to)
		case tagSession:
			return readNumber(tag, value, &h.session)
		case tagGone:
			return readNumber(tag, value, &h.gone)
		case tagOrder:
			return readNumber(tag, value, &h.order)
		case tagMaxFrame:
			return readNumber(tag, value, &h.maxFrame)
		case tagMaxBulk:
			return readNumber(tag, value, &h.maxBulk)
		case tagFeatures:
			return readNumber(tag, value, &h.features)
		case tagWindow, tagWindow + 1, tagWindow + 2:
			return readNumber(tag, value, &h.window[tag-tagWindow])
		}
		_, err := h.id.read(tag, value)
		return err
	})
}

// protocol returns the highest version that both sides speak.
func protocol(ownMin, ownMax, min, max uint64) (uint64, error) {
	v := ownMax
	if max < v {
		v = max
	}
	if v < ownMin || v < min || v == 0 {
		return 0, reject(CodeProtocol, "one side speaks versions %d to %d, the other %d to %d: upgrade the older program", ownMin, ownMax, min, max)
	}
	return v, nil
}

const (
	tagCode             = 1
	tagReason           = 2
	tagRejectionSession = 3
)

func (r *Rejection) append(dst []byte) []byte {
	dst = appendNumber(dst, tagCode, uint64(r.Code))
	text := r.Text
	if len(text) > maxText {
		text = text[:maxText]
	}
	dst = appendText(dst, tagReason, text)
	return appendNumber(dst, tagRejectionSession, r.session)
}

func (r *Rejection) read(b []byte) error {
	var code uint64
	err := readFields(b, func(tag uint64, value []byte) error {
		switch tag {
		case tagCode:
			return readNumber(tag, value, &code)
		case tagReason:
			return readText(tag, value, &r.Text)
		case tagRejectionSession:
			return readNumber(tag, value, &r.session)
		}
		return nil
	})
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
