package mesh

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// Conn is a connection to one incarnation of another node. Errors of its methods say that nothing was sent.
type Conn interface {
	Send(class wire.Class, kind wire.Kind, payload []byte) error
	SendLarge(kind wire.Kind, payload []byte) error
	Flush()
}

// Calls are the calls over one connection.
type Calls struct {
	conn  Conn
	later func(func()) // calls a function that does not block, after a pause
	slots wire.Slots[pending]
}

// pending is a call without an answer. done gets the answer, or the reason why there is none; it returns an error for
// an answer that it cannot read.
type pending struct {
	kind wire.Kind
	done func(r *wire.Reader, err error) error
}

// Start makes c ready for use over conn.
func (c *Calls) Start(conn Conn, later func(func())) { c.conn, c.later = conn, later }

// Call asks the peer a question of a kind, which question appends to a frame, and calls done once: on the connection's
// reader with the answer, or with why there is none (see the package). done must not block nor keep the reader; its error
// says that the answer cannot be, and ends the connection.
func (c *Calls) Call(class wire.Class, kind wire.Kind, question func(dst []byte) []byte, done func(r *wire.Reader, err error) error) {
	slot, ok := c.slots.Put(pending{kind, done})
	if !ok {
		_ = done(nil, fmt.Errorf("%w: the connection is over", raysys.ErrNotDelivered))
		return
	}
	frame := question(wire.AppendUvarint(nil, slot))
	if err := c.send(class, kind, frame); err != nil {
		if p, ok := c.slots.Take(slot); ok {
			if !Undelivered(err) {
				err = fmt.Errorf("%w: %w", raysys.ErrNotDelivered, err)
			}
			_ = p.done(nil, err)
		}
		return
	}
	c.conn.Flush()
}

// Undelivered reports whether a call ended before anything of it was sent.
func Undelivered(err error) bool { return errors.Is(err, raysys.ErrNotDelivered) }

// Unknown reports whether a call ended with its connection, after it was sent.
func Unknown(err error) bool { return errors.Is(err, raysys.ErrOutcomeUnknown) }

func (c *Calls) send(class wire.Class, kind wire.Kind, frame []byte) error {
	if len(frame) > wire.InlineLimit {
		return c.conn.SendLarge(kind, frame)
	}
	return c.conn.Send(class, kind, frame)
}

// Ask is Call for an answer that read makes a value of.
func Ask[A any](c *Calls, class wire.Class, kind wire.Kind, question func(dst []byte) []byte, read func(*wire.Reader) (A, error), done func(A, error)) {
	c.Call(class, kind, question, func(r *wire.Reader, err error) error {
		var none A
		if err != nil {
			done(none, err)
			return nil
		}
		a, bad := read(r)
		if bad == nil {
			bad = r.Err()
		}
		if bad != nil {
			a = none
		}
		done(a, bad)
		return bad
	})
}

// Answered takes a frame of KindAnswer.
func (c *Calls) Answered(frame []byte) error {
	r := wire.NewReader(frame)
	slot, shape := r.Uvarint(), r.Byte()
	var refusal error
	switch shape {
	case answerOK:
	case answerFailed:
		refusal = wire.ReadError(&r)
	default:
		return fmt.Errorf("%w: an answer of shape %d", wire.ErrCorrupt, shape)
	}
	if err := r.Err(); err != nil {
		return err
	}
	p, ok := c.slots.Take(slot)
	switch {
	case !ok:
		return nil // it was answered before
	case refusal != nil:
		return p.done(nil, refusal)
	}
	return p.done(&r, nil)
}

// Close ends all calls without an answer, and those to come, because the connection is over.
func (c *Calls) Close(cause error) {
	for _, p := range c.slots.Drain() {
		_ = p.done(nil, fmt.Errorf("%w: %w", raysys.ErrOutcomeUnknown, cause))
	}
}

// Pending returns how many calls of a kind have no answer.
func (c *Calls) Pending(kind wire.Kind) (n int) {
	c.slots.Each(func(_ uint64, p pending) {
		if p.kind == kind {
			n++
		}
	})
	return n
}
