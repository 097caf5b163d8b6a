package refs

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// await is one question for an outcome: to the owner, then to each lender in turn, then to the objects, which look for
// copies.
type await struct {
	source *RemoteSource
	at     exportKey // the node that is asked, and the number there
	into   any
	done   func(error)
	failed error // the first error
	open   error // the first error of a node that lives, and did not answer that it does not know the future
	tried  []exportKey
}

func (a *await) begin() {
	a.source.refs.mesh.Connect(a.at.owner, func(p *mesh.Peer, err error) {
		if err != nil {
			a.next(err)
			return
		}
		a.ask(p)
	})
}

// next asks the next lender, when the node that was asked cannot answer; after the last one it asks for copies.
func (a *await) next(err error) {
	if a.failed == nil {
		a.failed = err
	}
	denied := errors.Is(err, errUnknownRef) || errors.Is(err, raysys.ErrNodeDead)
	if a.open == nil && !denied && a.source.refs.mesh.Alive(a.at.owner) {
		a.open = err
	}
	a.tried = append(a.tried, a.at)
	for _, l := range a.source.refs.table.lenders(a.source.borrow) {
		if !slices.Contains(a.tried, l) {
			a.at = l
			a.begin()
			return
		}
	}
	end := a.source.lost(a.failed)
	if a.open != nil {
		end = a.source.Unreachable(a.open)
	}
	a.source.refs.objects.FindCopies(a.source, end, a.done)
}

func (a *await) ask(p *mesh.Peer) {
	p.Questions.Ask(wire.Requests, wire.KindAwait, func(dst []byte) []byte {
		return wire.AppendUvarint(dst, a.at.number)
	}, func(r *wire.Reader, err error) error {
		switch {
		case mesh.Undelivered(err), mesh.Unknown(err):
			a.lost(p, err)
			return nil
		case err != nil:
			a.done(err)
			return nil
		}
		if err := a.answered(Of(p), r); err != nil {
			a.done(a.source.Unreachable(err))
			return err
		}
		return nil
	})
}

// lost is called when the connection to the node that was asked broke. The node may live: then it is asked again.
func (a *await) lost(p *mesh.Peer, cause error) {
	a.source.refs.mesh.Connect(a.at.owner, func(next *mesh.Peer, err error) {
		switch {
		case err != nil:
			a.next(err)
		case next == p:
			a.next(cause)
		default:
			a.ask(next)
		}
	})
}

// answered handles an answer.
func (a *await) answered(p *Session, r *wire.Reader) error {
	switch shape := r.Byte(); shape {
	case outcomeObject:
		d := Description{Size: int64(r.Uvarint()), OID: r.ID(), Owner: wire.ReadNode(r)}
		var err error
		if d.Refs, err = p.readRefs(r); err != nil {
			return err
		}
		a.done(&core.Elsewhere{Source: p.refs.objects.NewSource(a.source, d)})
		return nil
	case outcomeForward:
		c, err := p.ReadRef(r)
		if err != nil {
			return err
		}
		src := core.SourceOf(c)
		switch {
		case src == nil:
			src = &localSource{c}
		case RemoteOf(c) == a.source: // the answer names the owner again, which does not answer
			a.next(raysys.ErrNodeDead)
			return nil
		}
		a.done(&core.Elsewhere{Source: src})
		return nil
	default:
		in := &inlineSource{peer: p}
		if err := in.read(r, shape); err != nil {
			return err
		}
		if errors.Is(in.err, errUnknownRef) {
			a.next(in.err)
			return nil
		}
		in.Fetch(a.into, a.done)
		return nil
	}
}

// errUnknownRef: the node that was asked does not hold the future.
var (
	errUnknownRef = errors.New("the reference is not held any more")
	_             = raysys.RegisterError("raysys.unknown-ref", errUnknownRef)
)

// onAwait serves KindAwait: the peer waits for a future of this node.
func (p *Session) onAwait(r *wire.Reader, to mesh.Reply) error {
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	failed := func(err error) { to.Send(wire.AppendError(append(to.Head(), outcomeError), err)) }
	c := p.refs.exports.get(number)
	if c == nil {
		failed(fmt.Errorf("%w: %w by %s", raysys.ErrObjectLost, errUnknownRef, p.refs.mesh.Self()))
		return nil
	}
	if c.Untyped() {
		out, err := p.AppendObject(append(to.Head(), outcomeForward), c)
		if err != nil {
			failed(err)
			return nil
		}
		to.Send(out)
		return nil
	}
	if err := c.Pin(); err != nil {
		failed(err)
		return nil
	}
	a := &awaited{peer: p, to: to, future: c}
	if !c.Subscribe(&a.Waiter, a) {
		a.Resolved(nil)
	}
	return nil
}

// awaited waits for a future of this node on behalf of a peer.
type awaited struct {
	core.Waiter
	peer   *Session
	to     mesh.Reply
	future *core.Future
	told   atomic.Bool
}

// Resolved implements core.Resolved.
func (a *awaited) Resolved(*core.Waiter) {
	if a.told.Swap(true) {
		return
	}
	out, fits, err := a.peer.appendInline(a.to.Head(), a.future, a.peer)
	if fits || err != nil {
		a.answer(out, err)
		return
	}
	if a.future.Absent() && RemoteOf(a.future) != nil {
		a.answer(a.peer.AppendObject(append(a.to.Head(), outcomeForward), a.future))
		return
	}
	a.peer.refs.runner.Background(func() { a.answer(a.peer.appendObject(a.to.Head(), a.future)) }, func(err error) { a.answer(nil, err) })
}

// answer sends the outcome, or the error.
func (a *awaited) answer(out []byte, err error) {
	defer a.future.Unpin()
	if err != nil {
		out = wire.AppendError(append(a.to.Head(), outcomeError), err)
	}
	a.to.Send(out)
}

// onDrop handles KindDrop.
func (p *Session) onDrop(frame []byte) error {
	r := wire.NewReader(frame)
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	p.refs.exports.drop(number, p.Key())
	return nil
}
