package registry

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// A question on the wire is the number of the shard, the operation's code, and what the operation asks. An answer
// begins with one of these.
const (
	answerOK    byte = iota // the operation's answer follows
	answerError             // the zero Place, which the format keeps and readers ignore, and the error follow
	answerRetry             // errNotLeader: the next leader is to be asked
)

func appendRequest(dst []byte, q request) []byte {
	return q.append(append(dst, byte(q.code())))
}

func readRequest(r *wire.Reader) (request, error) {
	q, err := newRequest(code(r.Byte()))
	if err == nil {
		err = q.read(r)
	}
	if bad := r.Err(); bad != nil {
		err = bad
	}
	return q, err
}

func appendAnswer[A any](dst []byte, op operation[A], a A, err error) []byte {
	switch {
	case err == errNotLeader:
		return append(dst, answerRetry)
	case err != nil:
		return wire.AppendError(appendPlace(append(dst, answerError), graindir.Place{}), err)
	}
	return op.appendAnswer(append(dst, answerOK), a)
}

// answer is a leader's answer: a value, or the error of the operation.
type answer[A any] struct {
	value A
	err   error
}

func readAnswer[A any](r *wire.Reader, op operation[A]) (a answer[A], bad error) {
	switch r.Byte() {
	case answerOK:
		a.value, bad = op.readAnswer(r)
	case answerError:
		readPlace(r)
		if a.err = wire.ReadError(r); errors.Is(a.err, wire.ErrCorrupt) {
			bad = a.err
		}
	case answerRetry:
		a.err = errNotLeader
	default:
		bad = wire.ErrCorrupt
	}
	return a, errors.Join(bad, r.Err())
}

// send implements request.
func (q *asked[A]) send(to *mesh.Questions) {
	mesh.Ask(to, wire.Requests, wire.KindRegistry, func(dst []byte) []byte {
		return appendRequest(wire.AppendUvarint(dst, uint64(q.shard)), q)
	}, func(r *wire.Reader) (answer[A], error) {
		return readAnswer(r, q.operation)
	}, func(a answer[A], err error) {
		switch {
		case err == nil:
			q.answer(a.value, a.err)
		case mesh.Undelivered(err), mesh.Unknown(err) && q.code().repeatable():
			q.reg.park(q)
		default:
			q.fail(fmt.Errorf("the leader of shard %d: %w", q.shard, err))
		}
	})
}

// replyTo implements request. A node that ends has not done the operation, and another node will lead the shard: the
// asker gets errNotLeader.
func (q *asked[A]) replyTo(to mesh.Reply) {
	q.done = func(a A, err error) {
		if errors.Is(err, raysys.ErrClosed) || errors.Is(err, raysys.ErrFenced) {
			err = errNotLeader
		}
		to.Send(appendAnswer(to.Head(), q.operation, a, err))
	}
}

// Serve handles a question of wire.KindRegistry: the peer takes this node for the leader of a shard. It does not block.
// An error means that the frame breaks the protocol.
func (r *Registry) Serve(from core.NodeKey, in *wire.Reader, to mesh.Reply) error {
	shard := in.Uint32()
	q, err := readRequest(in)
	if err != nil {
		return err
	}
	*q.who() = asker{reg: r, shard: int(shard), from: from, inbound: true}
	q.replyTo(to)
	r.received(q)
	return nil
}
