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

// operation is one thing that the leader of a shard can be asked to do, with an answer of type A. Each operation has a
// file of its own: its question and its answer, with their encodings, and what the leader does.
type operation[A any] interface {
	code() code
	// shardKey is what is hashed to find the shard.
	shardKey() string
	// append appends the question to a frame, behind the code; read reads it.
	append(dst []byte) []byte
	read(r *wire.Reader) error
	appendAnswer(dst []byte, a A) []byte
	readAnswer(r *wire.Reader) (A, error)
	// serve is called by the leader's actor. It answers q once, now or later, on any goroutine.
	serve(l *leader, q *asked[A])
}

// request is an asked operation with an answer of any type. It waits for a leader, is sent to one, or is served by one.
type request interface {
	code() code
	shardKey() string
	append(dst []byte) []byte
	read(r *wire.Reader) error
	who() *asker
	// ofShard reports whether it is about a shard, and not about one of its keys.
	ofShard() bool
	// serveAt has the leader of the shard do the operation.
	serveAt(l *leader)
	// fail answers with an error.
	fail(err error)
	// send asks the leader of the shard over a connection.
	send(to *mesh.Questions)
	// replyTo has the answer sent to the node that asks.
	replyTo(to mesh.Reply)
}

// asker says which node asks, and how long the request has waited.
type asker struct {
	reg     *Registry
	shard   int
	from    core.NodeKey
	inbound bool  // another node asks: after errNotLeader it asks the next leader itself
	since   int64 // when the request began to wait for a leader; 0 if it never did
}

func (a *asker) who() *asker { return a }

func (q *asked[A]) ofShard() bool {
	if d, ok := any(q.operation).(*dues); ok {
		return d.query != nil
	}
	return q.code() == codePage
}

// asked is an operation, its asker, and the callback for the answer.
type asked[A any] struct {
	operation[A]
	asker
	done func(A, error) // called once, on any goroutine; must not block
}

// ask asks the leader of the operation's shard. done is called once, on any goroutine, and must not block.
func ask[A any](r *Registry, op operation[A], done func(A, error)) {
	q := &asked[A]{operation: op, done: done}
	q.asker = asker{reg: r, shard: r.cfg.Layout.ShardOf(op.shardKey()), from: r.cfg.Members.Self()}
	r.askLeader(q)
}

// errNotLeader is the answer of a node that does not lead the shard, or does so no more: the next leader is asked.
// Nothing was done; but a placement or changes that were being committed may be durable, and come to the same when they
// are asked for again.
var errNotLeader = errors.New("the node does not lead the shard")

// answer ends the request. After errNotLeader a request of this node waits for the next leader instead; another node
// gets that error, and its request waits there.
func (q *asked[A]) answer(a A, err error) {
	if err == errNotLeader && !q.inbound {
		q.reg.park(q)
		return
	}
	q.done(a, err)
}

func (q *asked[A]) serveAt(l *leader) { q.serve(l, q) }

func (q *asked[A]) fail(err error) {
	var none A
	q.answer(none, err)
}

// code is an operation's number on the wire.
type code byte

const (
	codeLocate  code = 1
	codeConfirm code = 2
	codeRelease code = 3
	codeLoad    code = 4
	codeSave    code = 5
	codeChanges code = 6
	codeFind    code = 7
	codeCommit  code = 8
	codeRestore code = 9
	codeTasks   code = 10
	codeGroup   code = 11
	codeDue     code = 12
	codePage    code = 13
)

// newRequest makes an empty request, whose operation is then read from the frame. Every operation has a line here.
func newRequest(c code) (request, error) {
	switch c {
	case codeLocate:
		return requestFor(&locate{}), nil
	case codeConfirm:
		return requestFor(&confirm{}), nil
	case codeRelease:
		return requestFor(&release{}), nil
	case codeLoad:
		return requestFor(&load{}), nil
	case codeSave:
		return requestFor(&save{}), nil
	case codeChanges:
		return requestFor(&changes{}), nil
	case codeFind:
		return requestFor(&find{}), nil
	case codeCommit:
		return requestFor(&commit{}), nil
	case codeRestore:
		return requestFor(&restore{}), nil
	case codeTasks:
		return requestFor(&taskChanges{}), nil
	case codeGroup:
		return requestFor(&group{}), nil
	case codeDue:
		return requestFor(&dues{}), nil
	case codePage:
		return requestFor(&page{}), nil
	}
	return nil, fmt.Errorf("%w: operation %d", wire.ErrCorrupt, c)
}

func requestFor[A any](op operation[A]) request { return &asked[A]{operation: op} }

// repeatable reports whether the operation may be done twice, and so is asked again when the connection ends before the
// answer. A save and a commit are not: they may have been committed, and their asker reads what is stored to find out.
func (c code) repeatable() bool { return c != codeSave && c != codeCommit }

// fromMemory reports whether an operation may be answered without a commit.
func (c code) fromMemory() bool {
	return c == codeLocate || c == codeConfirm || c == codeFind || c == codeGroup
}

// needsLease reports whether a node whose lease is out must not ask. A release gives up a placement, which such a node
// must not use anyway.
func (c code) needsLease() bool { return c != codeRelease }

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
