package mesh

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// What an answer is, behind its slot.
const (
	answerOK     byte = iota // the answer follows
	answerFailed             // an error follows: there is none
)

// Reply is the way back of one question. It is used once: for Send, or for Fail. A peer that is gone needs no answer: it knows
// that the outcome is unknown.
type Reply struct {
	questions *Questions
	slot      uint64
	class     wire.Class
}

// Serve takes a frame that asks a question: it hands the question to handler, which must not block or keep the reader, and
// uses the Reply then or later. The error says that the question cannot be.
func (q *Questions) Serve(class wire.Class, frame []byte, handler func(r *wire.Reader, to Reply) error) error {
	r := wire.NewReader(frame)
	to := Reply{questions: q, slot: r.Uvarint(), class: wire.Replies}
	if class == wire.Control {
		to.class = wire.Control
	}
	if err := r.Err(); err != nil {
		return err
	}
	return handler(&r, to)
}

// Head is what the answer is appended to.
func (to Reply) Head() []byte { return append(wire.AppendUvarint(nil, to.slot), answerOK) }

// Send sends the answer, which begins with Head. The caller learns of one that no frame holds as raysys.ErrTooLarge.
func (to Reply) Send(answer []byte) {
	if err := to.deliver(answer); errors.Is(err, raysys.ErrTooLarge) {
		to.Fail(fmt.Errorf("%w: an answer of %d bytes, which no frame holds", raysys.ErrTooLarge, len(answer)))
	}
}

// Fail tells the caller why there is no answer.
func (to Reply) Fail(err error) {
	_ = to.deliver(wire.AppendError(append(wire.AppendUvarint(nil, to.slot), answerFailed), err))
}

// Done sends an answer that says nothing but that what was asked is done, or fails.
func (to Reply) Done(err error) {
	if err != nil {
		to.Fail(err)
		return
	}
	to.Send(to.Head())
}

// Behind has the answer arrive behind all requests that are sent before it.
func (to Reply) Behind() Reply {
	to.class = wire.Requests
	return to
}

// deliver sends an answer of any size. Where too much is under way to the peer it is sent later.
func (to Reply) deliver(frame []byte) error {
	err := to.questions.send(to.class, wire.KindAnswer, frame)
	if errors.Is(err, raysys.ErrOverloaded) {
		to.questions.later(func() { _ = to.deliver(frame) })
		return nil
	}
	to.questions.conn.Flush()
	return err
}
