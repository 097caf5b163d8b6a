package grainengine

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// valueOrWait returns the value of a reference that was borrowed and has settled. When that is elsewhere it is fetched,
// here is false, and to.Resolved(next) follows. resolved is what Resolved was called with, nil at first.
func valueOrWait[A any](r core.Ref[A], resolved, next *core.Waiter, to core.Resolved) (v A, here bool, err error) {
	c := core.FutureOf(r.Link)
	if resolved != nil {
		c = resolved.Future() // one whose fetch has failed just now is not fetched again
	}
	for !c.Follow(next, to) {
		if v, here, err = core.Peek(r); here {
			return v, true, err
		}
		c = core.FutureOf(r.Link)
	}
	return v, false, nil
}

// pulled is the argument of a call from another node while it is fetched.
type pulled[G, A, R any] struct {
	call        *call[G, A, R]
	inboundCall *inboundCall
	ref         core.Ref[A]
	waiter      core.Waiter
}

// pull implements remote.
func (c *call[G, A, R]) pull(v *inboundCall, object *core.Future) {
	p := &pulled[G, A, R]{call: c, inboundCall: v}
	err := core.SetRefFuture(&p.ref, object)
	if err == nil {
		err = core.FutureOf(p.ref.Link).Pin()
	}
	if err != nil {
		v.fail(err)
		return
	}
	if !core.FutureOf(p.ref.Link).Subscribe(&p.waiter, p) {
		p.Resolved(nil)
	}
}

// Resolved implements core.Resolved: the argument is here, and the call goes on.
func (p *pulled[G, A, R]) Resolved(w *core.Waiter) {
	v, here, err := valueOrWait(p.ref, w, &p.waiter, p)
	if !here {
		return
	}
	core.FutureOf(p.ref.Link).Return()
	if err != nil {
		p.inboundCall.fail(err) // and the calls behind it go on
		return
	}
	p.inboundCall.peer.mu.Lock()
	if p.inboundCall.argument == argumentPulled { // else it has ended meanwhile
		p.call.arg = v
	}
	p.inboundCall.peer.mu.Unlock()
	p.inboundCall.peer.release(p.inboundCall)
}

// settleElsewhere ends the call with a result that stays where it was computed until it is needed.
func (c *call[G, A, R]) settleElsewhere(r wire.Reader, refs wire.References) error {
	src, size, err := wire.ReadLarge(&r, refs)
	if err != nil {
		return err
	}
	var zero A
	if c.Future.Start() {
		c.arg = zero
		c.Future.ForwardSized(src, size)
	}
	return nil
}
