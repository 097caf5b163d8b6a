package link

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys/internal/wire"
)

// classes is the number of those that the express connection carries: all but wire.Bulk, which has a connection of its own.
const classes = 3

// The link's own kinds. The numbers are on the wire and never change.
const (
	kindPing       wire.Kind = 1 // 8 bytes, which the pong returns
	kindPong       wire.Kind = 2
	kindCredit     wire.Kind = 3 // class (1 byte), bytes granted (4)
	kindBye        wire.Kind = 4 // the reason, as text: the last frame of a session
	kindBulkWanted wire.Kind = 5 // the sender wants a bulk connection, and the receiver is the side that dials
	kindCounts     wire.Kind = 6 // how many frames were sent before this one (loss.go)

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
