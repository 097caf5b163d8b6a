package outbox

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// A stored message is
//
//	version 1 | kind | receiver | body
//
// under its number, 8 bytes, big-endian, so that the records of a grain stand in the order in which it has sent them.
const recordVersion = 1

// Tell is the kind of calls of grains.
const Tell = "tell"

// Message is one thing to deliver.
type Message struct {
	Number uint64
	Kind   string // who delivers it, by what Body says
	To     string // the receiver: messages with the same keep their order
	Body   []byte
	Record []byte // what is stored; Body is a part of it
	Before uint64 // as it is sent: the message to the same receiver that has to arrive before it; 0 for none
	Wide   bool   // several may be on their way to its receiver: the receiver keeps their order, or there is none
	Bad    error  // why its record cannot be read: it is not sent, and those behind it wait

	Tried bool // a try before this one may have delivered it, also one of an activation before

	state state
	since int64 // when it came to this node, of the Sender's clock
}

// state is that of a message in its line.
type state uint8

const (
	waiting state = iota
	sent
	arrived
	dropped // and what becomes of it counts no more
)

// New packs a message, which has no number yet.
func New(kind, to string, body []byte) *Message {
	record := append(wire.AppendBytes(wire.AppendBytes([]byte{recordVersion}, kind), to), body...)
	return &Message{Kind: kind, To: to, Body: record[len(record)-len(body):], Record: record}
}

// PlaceBits are those of a number that say which message of its turn it is.
const PlaceBits = 10

// Name is the name of the record of the message with that number.
func Name(number uint64) string { return string(binary.BigEndian.AppendUint64(nil, number)) }

// ReadMessage reads a record and its name. One that cannot be read is a Message with Bad: without a receiver, so that
// nothing is sent that stands behind it, whoever it is for.
func ReadMessage(s graindir.Side) (*Message, error) {
	if len(s.Name) != 8 {
		return nil, fmt.Errorf("%w: %x is no number of a message", graindir.ErrUnreadable, s.Name)
	}
	r := wire.NewReader(s.Data)
	v := r.Byte()
	m := &Message{Kind: r.String(), To: r.String(), Body: r.Rest(), Record: s.Data}
	m.Number = binary.BigEndian.Uint64([]byte(s.Name))
	switch {
	case v != recordVersion && len(s.Data) > 0:
		m.Bad = fmt.Errorf("%w: message %x is stored in version %d, and this program knows version %d: "+
			"it was written by a newer one", graindir.ErrUnreadable, s.Name, v, recordVersion)
	case r.Err() != nil || m.Kind == "":
		m.Bad = fmt.Errorf("%w: message %x is damaged: %w", graindir.ErrUnreadable, s.Name, wire.ErrCorrupt)
	default:
		return m, nil
	}
	m.Kind, m.To, m.Body = "", "", nil
	return m, nil
}

// Unreadable is the kind of receiver as which a message is shown that cannot be read; Hex is its name.
const Unreadable = "unreadable"

// Hex is the number of a message in digits.
func Hex(number uint64) string { return fmt.Sprintf("%016x", number) }

// Receiver is the kind of the message and its receiver; Unreadable and its own number where those cannot be read.
func (m *Message) Receiver() (kind, to string) {
	if m.Kind == "" {
		return Unreadable, Hex(m.Number)
	}
	return m.Kind, m.To
}
