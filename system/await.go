package system

import (
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// remoteSource is a future that another node owns, or holds for this one.
type remoteSource struct {
	c      *cluster
	owner  nodeKey
	number uint64 // in the owner's exports
	id     raysys.TaskID
}

// heldRef is what the owner is told when the last reference here is gone.
type heldRef struct {
	owner  nodeKey
	number uint64
}

func (s *remoteSource) Name() string      { return "value owned by " + string(s.owner.node) }
func (s *remoteSource) ID() raysys.TaskID { return s.id }

// Cancelled implements raysys.Source: others may want the value, so its owner goes on.
func (s *remoteSource) Cancelled() {}

// Fetch implements raysys.Source.
func (s *remoteSource) Fetch(into any, done func(error)) {
	s.c.connect(s.owner, func(p *peer, err error) {
		if err != nil {
			s.copies(err, done)
			return
		}
		s.ask(p, &await{source: s, into: into, done: done})
	})
}

func (s *remoteSource) lost(cause error) error {
	return fmt.Errorf("%w: its owner %s cannot be asked: %w", raysys.ErrObjectLost, s.owner, cause)
}

// await is one outcome that was asked for.
type await struct {
	source *remoteSource
	into   any
	done   func(error)
}

func (s *remoteSource) ask(p *peer, a *await) {
	slot, ok := p.awaits.Put(a)
	if !ok {
		a.lost(p)
		return
	}
	frame := wire.AppendUvarint(nil, slot)
	if err := p.Send(wire.Requests, wire.KindAwait, wire.AppendUvarint(frame, s.number)); err != nil {
		if a, ok := p.awaits.Take(slot); ok {
			a.done(s.lost(err))
		}
		return
	}
	p.Flush()
}

// lost is called when the connection to the owner broke: the owner may live, and then is asked again.
func (a *await) lost(p *peer) {
	a.source.c.connect(a.source.owner, func(next *peer, err error) {
		switch {
		case err != nil:
			a.source.copies(err, a.done)
		case next == p:
			a.done(a.source.lost(raysys.ErrNotDelivered))
		default:
			a.source.ask(next, a)
		}
	})
}

// onAwait handles KindAwait: the peer waits for a future of this node.
func (p *peer) onAwait(frame []byte) error {
	r := wire.NewReader(frame)
	a := &awaited{peer: p, slot: r.Uvarint()}
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	c := p.c.exports.get(number)
	if c == nil {
		out := append(wire.AppendUvarint(nil, a.slot), 0)
		return p.reply(wire.KindOutcome, wire.AppendError(out, fmt.Errorf("%w: %s does not hold it any more", raysys.ErrObjectLost, p.c.self())))
	}
	a.core = c
	if err := c.Pin(); err != nil {
		return p.reply(wire.KindOutcome, wire.AppendError(append(wire.AppendUvarint(nil, a.slot), 0), err))
	}
	if !c.Subscribe(&a.Waiter, a) {
		a.Resolved(nil)
	}
	return nil
}

// awaited is a future of this node that a peer waits for.
type awaited struct {
	raysys.Waiter
	peer *peer
	slot uint64
	core *raysys.Core
	told atomic.Bool
}

// Resolved implements raysys.Resolved.
func (a *awaited) Resolved(*raysys.Waiter) {
	if a.told.Swap(true) {
		return
	}
	head := wire.AppendUvarint(nil, a.slot)
	out, fits, err := a.peer.appendInline(head, a.core)
	if fits || err != nil {
		a.answer(out, err)
		return
	}
	a.peer.c.background(func() { a.answer(a.peer.appendObject(head, a.core)) }, func(err error) { a.answer(nil, err) })
}

// answer sends the outcome, or why there is none.
func (a *awaited) answer(out []byte, err error) {
	defer a.core.Unpin()
	if err != nil {
		out = wire.AppendError(append(wire.AppendUvarint(nil, a.slot), outcomeError), err)
	}
	_ = a.peer.reply(wire.KindOutcome, out) // a peer that is gone waits no more
}

// reply sends a frame of any size.
func (p *peer) reply(kind wire.Kind, frame []byte) error {
	if len(frame) > wire.InlineLimit {
		return p.SendLarge(kind, frame)
	}
	err := p.Send(wire.Replies, kind, frame)
	p.Flush()
	return err
}

// onOutcome handles KindOutcome: the answer to an await.
func (p *peer) onOutcome(frame []byte) error {
	r := wire.NewReader(frame)
	slot, shape := r.Uvarint(), r.Byte()
	if shape == outcomeObject {
		d := description{size: int64(r.Uvarint()), oid: r.ID(), owner: readNode(&r)}
		var err error
		if d.refs, err = p.readRefs(&r); err != nil {
			return err
		}
		if a, ok := p.awaits.Take(slot); ok {
			a.done(&raysys.Elsewhere{Source: p.c.objects.newObjectSource(a.source, d)})
		}
		return nil
	}
	in := &inlineSource{peer: p}
	if err := in.read(&r, shape); err != nil {
		return err
	}
	if a, ok := p.awaits.Take(slot); ok {
		in.Fetch(a.into, a.done)
	}
	return nil
}

// onDrop handles KindDrop.
func (p *peer) onDrop(frame []byte) error {
	r := wire.NewReader(frame)
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	p.c.exports.drop(number, p.key)
	return nil
}

// dropRef tells an owner that a reference is gone here. It runs on the collector's goroutine.
func (c *cluster) dropRef(h heldRef) {
	if p := c.peer(h.owner); p != nil {
		_ = p.Send(wire.Control, wire.KindDrop, wire.AppendUvarint(nil, h.number))
	}
}
