package grainengine

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// valueOrWait puts the value of a future that was borrowed and has settled into p. When that is elsewhere it is fetched,
// here is false, and to.Resolved(next) follows. resolved is what Resolved was called with, nil at first.
func valueOrWait(of *core.Future, t *core.ValueType, p unsafe.Pointer, resolved, next *core.Waiter, to core.Resolved) (here bool, err error) {
	c := of
	if resolved != nil {
		c = resolved.Future() // one whose fetch has failed just now is not fetched again
	}
	for !c.Follow(next, to) {
		if here, err = of.PeekInto(t, p); here {
			return true, err
		}
		c = of
	}
	return false, nil
}

// pulled is the argument of a call from another node while it is fetched.
type pulled struct {
	call        *call
	inboundCall *inboundCall
	ref         *core.Future
	arg         reflect.Value // a pointer to where it goes first
	waiter      core.Waiter
}

// pull fetches an argument that came by reference, and then lets v go on.
func (c *call) pull(v *inboundCall, object *core.Future) {
	ref, err := object.As(c.method.argType)
	if err == nil {
		err = ref.Pin()
	}
	if err != nil {
		v.fail(err)
		return
	}
	p := &pulled{call: c, inboundCall: v, ref: ref, arg: reflect.New(c.method.argType.Type)}
	if !ref.Subscribe(&p.waiter, p) {
		p.Resolved(nil)
	}
}

// Resolved implements core.Resolved: the argument is here, and the call goes on.
func (p *pulled) Resolved(w *core.Waiter) {
	t := p.call.method.argType
	here, err := valueOrWait(p.ref, t, p.arg.UnsafePointer(), w, &p.waiter, p)
	if !here {
		return
	}
	p.ref.Return()
	if err != nil {
		p.inboundCall.fail(err) // and the calls behind it go on
		return
	}
	p.inboundCall.peer.mu.Lock()
	if p.inboundCall.argument == argumentPulled { // else it has ended meanwhile
		t.At(p.call.argAt()).Set(p.arg.Elem())
	}
	p.inboundCall.peer.mu.Unlock()
	p.inboundCall.peer.release(p.inboundCall)
}

// settleElsewhere ends the call with a result that stays where it was computed until it is needed.
func (c *call) settleElsewhere(r wire.Reader, refs wire.References) error {
	src, size, err := wire.ReadLarge(&r, refs)
	if err != nil {
		return err
	}
	if c.Future.Start() {
		c.dropArg()
		c.Future.ForwardSized(src, size)
	}
	return nil
}
