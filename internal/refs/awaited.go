package refs

import (
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

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
