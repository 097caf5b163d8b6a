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

// Questions are what a node has asked a peer over one connection and has no answer to yet.
type Questions struct {
	conn  Conn
	later func(func()) // calls a function that does not block, after a pause
	slots wire.Slots[pending]
}

// pending is a question without an answer. done gets the answer, or the reason why there is none; it returns an error for
// an answer that it cannot read.
type pending struct {
	kind wire.Kind
	done func(r *wire.Reader, err error) error
}

// Start makes q ready for use over conn.
func (q *Questions) Start(conn Conn, later func(func())) { q.conn, q.later = conn, later }

// Ask asks the peer a question of a kind, which question appends to a frame, and calls done once: on the connection's
// reader with the answer, or with why there is none (see the package). done must not block nor keep the reader; its error
// says that the answer cannot be, and ends the connection.
func (q *Questions) Ask(class wire.Class, kind wire.Kind, question func(dst []byte) []byte, done func(r *wire.Reader, err error) error) {
	slot, ok := q.slots.Put(pending{kind, done})
	if !ok {
		_ = done(nil, fmt.Errorf("%w: the connection is over", raysys.ErrNotDelivered))
		return
	}
	frame := question(wire.AppendUvarint(nil, slot))
	if err := q.send(class, kind, frame); err != nil {
		if p, ok := q.slots.Take(slot); ok {
			if !Undelivered(err) {
				err = fmt.Errorf("%w: %w", raysys.ErrNotDelivered, err)
			}
			_ = p.done(nil, err)
		}
		return
	}
	q.conn.Flush()
}

// Undelivered reports whether a question ended before anything of it was sent.
func Undelivered(err error) bool { return errors.Is(err, raysys.ErrNotDelivered) }

// Unknown reports whether a question ended with its connection, after it was sent.
func Unknown(err error) bool { return errors.Is(err, raysys.ErrOutcomeUnknown) }

func (q *Questions) send(class wire.Class, kind wire.Kind, frame []byte) error {
	if len(frame) > wire.InlineLimit {
		return q.conn.SendLarge(kind, frame)
	}
	return q.conn.Send(class, kind, frame)
}

// Ask is Questions.Ask for an answer that read makes a value of.
func Ask[A any](q *Questions, class wire.Class, kind wire.Kind, question func(dst []byte) []byte, read func(*wire.Reader) (A, error), done func(A, error)) {
	q.Ask(class, kind, question, func(r *wire.Reader, err error) error {
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
func (q *Questions) Answered(frame []byte) error {
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
	p, ok := q.slots.Take(slot)
	switch {
	case !ok:
		return nil // it was answered before
	case refusal != nil:
		return p.done(nil, refusal)
	}
	return p.done(&r, nil)
}

// Close ends all questions without an answer, and those to come, because the connection is over.
func (q *Questions) Close(cause error) {
	for _, p := range q.slots.Drain() {
		_ = p.done(nil, fmt.Errorf("%w: %w", raysys.ErrOutcomeUnknown, cause))
	}
}

// Pending returns how many questions of a kind have no answer.
func (q *Questions) Pending(kind wire.Kind) (n int) {
	q.slots.Each(func(_ uint64, p pending) {
		if p.kind == kind {
			n++
		}
	})
	return n
}
