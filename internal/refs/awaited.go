package refs

import (
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// onAwait serves KindAwait: the peer waits for a future of this node. Where it says what it has found lost, the value is
// made again if it is not elsewhere by now.
func (p *Session) onAwait(r *wire.Reader, to mesh.Reply) error {
	number := r.Uvarint()
	var lost exportKey
	if r.Len() > 0 {
		lost = exportKey{wire.ReadNode(r), r.Uvarint()}
	}
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
	begin(c)
	a := &awaited{peer: p, to: to, future: c, lost: lost}
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
	lost   exportKey // what the peer has found lost: the future at the owner; zero for nothing
	told   atomic.Bool
}

// Resolved implements core.Resolved.
func (a *awaited) Resolved(*core.Waiter) {
	if a.told.Swap(true) {
		return
	}
	src := a.peer.refs.lostAt(a.future, a.lost)
	if src == nil {
		a.tell()
		return
	}
	cause := fmt.Errorf("%w: node %s has found it lost", raysys.ErrObjectLost, a.peer.Key())
	a.future.Rebuild(src, cause, func(err error) {
		if err != nil {
			a.answer(nil, err)
			return
		}
		a.lost = exportKey{}
		a.tell()
	})
}

// lostAt returns the Source of c when that is what lost names, nil when the value is elsewhere or here.
func (r *References) lostAt(c *core.Future, lost exportKey) core.Source {
	if lost == (exportKey{}) || !c.Absent() {
		return nil
	}
	src := core.SourceOf(c)
	switch s := core.SourceOf(core.Behind(c)).(type) {
	case standsFor:
		at := s.Remote()
		owner := at.Owner
		if l, ok := s.(core.Located); ok {
			owner, _ = l.Where()
		}
		if owner == lost.owner && (lost.number == 0 || lost.number == at.Number) {
			return src
		}
	case interface{ Lost() error }: // in this node's store
		if lost.owner == r.mesh.Self() && s.Lost() != nil {
			return src
		}
	}
	return nil
}

// tell sends the outcome, or says where it is, once it may leave.
func (a *awaited) tell() {
	whenTold(a.peer.refs.job.Gate, a.future, func(err error) {
		if err != nil {
			a.peer.refs.nextAttempt(a.future, err, func(next *core.Future, err error) {
				if err != nil {
					a.answer(nil, err)
					return
				}
				a.answer(a.peer.AppendObject(append(a.to.Head(), outcomeForward), next))
			})
			return
		}
		a.send()
	})
}

// nextAttempt finds the future that a recorded task has by now in the place of c, which has failed with no outcome: what
// submitted the task has another attempt. Where there is none done gets cause.
func (r *References) nextAttempt(c *core.Future, cause error, done func(*core.Future, error)) {
	run := core.RecordedUnder(c)
	if r.lineage == nil || run == 0 || !c.Failed() {
		done(nil, cause)
		return
	}
	r.lineage.Succeed(run, c.ID(), nil, func(_ core.Source, err error) {
		next := r.lineage.Find(run, c.ID())
		if err != nil || next == nil || next == c {
			done(nil, cause)
			return
		}
		done(next, nil)
	})
}

// whenTold calls then when the outcome of c may be told, however long the store is away: the next submitter of a recorded
// task must know of it.
func whenTold(gate core.Gate, c *core.Future, then func(error)) {
	if gate == nil {
		then(nil)
		return
	}
	gate.Leave([]*core.Future{c}, func(err error) {
		if err == nil && core.Untold(c) && !c.Object() {
			whenTold(gate, c, then)
			return
		}
		then(err)
	})
}

func (a *awaited) send() {
	c := core.Behind(a.future)
	out, fits, err := a.peer.appendInline(a.to.Head(), c, a.peer)
	if fits || err != nil {
		a.answer(out, err)
		return
	}
	if at := RemoteOf(c); c.Absent() && at != nil && at.Number != 0 { // else the peer asks this node alone
		a.answer(a.peer.AppendObject(append(a.to.Head(), outcomeForward), c))
		return
	}
	describe := a.peer.refs.objects.Describe
	if a.lost != (exportKey{}) {
		describe = a.peer.refs.objects.DescribeHere
	}
	a.peer.refs.runner.Background(func() { a.answer(a.peer.appendObject(a.to.Head(), c, describe)) }, func(err error) { a.answer(nil, err) })
}

// answer sends the outcome, or the error.
func (a *awaited) answer(out []byte, err error) {
	defer a.future.Unpin()
	if err != nil {
		out = wire.AppendError(append(a.to.Head(), outcomeError), err)
	}
	a.to.Send(out)
}
