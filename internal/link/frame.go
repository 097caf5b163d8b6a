package link

import (
	"encoding/binary"
	"fmt"
)

// Class orders frames by what may wait for what: no class waits for a later one (rule C6).
type Class uint8

// The classes. Each has its own queue and credits; Bulk has its own connection.
const (
	Control  Class = iota // pings, credits, cancellations
	Replies               // what somebody waits for
	Requests              // what makes work
	Bulk                  // what SendBulk sent; the handler may keep the payload

	classes = 3 // of the express connection
)

func (c Class) String() string {
	switch c {
	case Control:
		return "control"
	case Replies:
		return "replies"
	case Requests:
		return "requests"
	case Bulk:
		return "bulk"
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Kind says what a frame carries. Numbers below FirstKind are the link's.
type Kind uint8

// FirstKind is the first number that users may give to their frames.
const FirstKind Kind = 32

// The link's own kinds. The numbers are on the wire and never change.
const (
	kindPing       Kind = 1 // 8 bytes, which the pong returns
	kindPong       Kind = 2
	kindCredit     Kind = 3 // class (1 byte), bytes granted (4)
	kindBye        Kind = 4 // the reason, as text: the last frame of a session
	kindBulkWanted Kind = 5 // the sender wants a bulk connection, and the receiver is the one who dials
	kindCounts     Kind = 6 // how many frames were sent before this one (loss.go); only to peers that told of featureCounts

	// From here on a frame takes credit of its class.
	kindRelayOpen  Kind = 16
	kindRelayData  Kind = 17
	kindRelayClose Kind = 18
	kindRelayMore  Kind = 19

	firstCredited Kind = 16
)

// A frame is a header and a payload. The header, little-endian: payload length (4 bytes), kind (1), class (1), flags
// (2). A reader skips flags it does not know.
const headerSize = 8

// flagBody says of a bulk frame that its payload is the length of a head (1 byte), the head and a body. It is sent only
// to peers that told of featureBodies.
const flagBody uint16 = 1

type header struct {
	length int
	kind   Kind
	class  Class
	flags  uint16
}

// readHeader takes the first headerSize bytes of b apart.
func readHeader(b []byte) header {
	_ = b[headerSize-1]
	return header{
		length: int(binary.LittleEndian.Uint32(b)),
		kind:   Kind(b[4]),
		class:  Class(b[5]),
		flags:  binary.LittleEndian.Uint16(b[6:]),
	}
}

// appendHeader appends the header of a frame without flags.
func appendHeader(dst []byte, length int, kind Kind, class Class) []byte {
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
	case bulk != (h.class == Bulk) || h.class > Bulk:
		return fmt.Errorf("%w: a frame of kind %d is of %s", ErrCorrupt, h.kind, h.class)
	case bulk && h.kind < FirstKind && h.kind != kindCounts:
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
