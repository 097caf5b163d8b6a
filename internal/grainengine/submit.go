package grainengine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// defaultDeadline of a grain call, so that a caller never waits for ever on a grain that hangs.
const defaultDeadline = 30 * time.Second

// MaxKey is how many bytes the key of a grain may have.
const MaxKey = 1024

// Runtime is what the core.Runtime of a node must have too, to call grains.
type Runtime interface{ Grains() *Engine }

func engineOf(t *core.Turn) *Engine { return t.Runtime().(Runtime).Grains() }

// Of returns the engine of the node that ctx is of, nil without one.
func Of(ctx context.Context) *Engine {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	return engineOf(t)
}

// check makes the checks of every call but a Tell and returns the turn to submit under.
func (m *method[G, A, R]) check(ctx context.Context, id ID) (*Engine, *core.Turn, error) {
	e, t, err := m.checked(ctx, id)
	if err == nil && t.Kind() == core.TurnGrain {
		if err := m.callable(t); err != nil {
			return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, err)
		}
	}
	return e, t, err
}

// checked is check without what only the turns of durable grains must not do.
func (m *method[G, A, R]) checked(ctx context.Context, id ID) (*Engine, *core.Turn, error) {
	t, own, err := core.TurnOf(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, err)
	}
	e := engineOf(t)
	switch {
	case !m.entry.In(e.cfg.Table):
		return nil, nil, fmt.Errorf("call: %w", m.entry.Unknown())
	case m.bad != nil:
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, m.bad)
	case id.Kind != m.kind.name:
		return nil, nil, fmt.Errorf("call %s: %w: the grain is %q, of another kind or the zero Grain: use Kind.Get", m.entry.Name, raysys.ErrInvalidRef, shown(id.String()))
	case len(id.Key) > MaxKey:
		return nil, nil, fmt.Errorf("call %s: %w: the grain's key has %d bytes, %d are allowed", m.entry.Name, raysys.ErrTooLarge, len(id.Key), MaxKey)
	case e.closed.Load():
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, raysys.ErrClosed)
	}
	if err := t.Cancelled(); err != nil {
		return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, err)
	}
	if !own && ctx.Err() != nil {
		return nil, nil, fmt.Errorf("call %s: %w: %w", m.entry.Name, raysys.ErrCancelled, context.Cause(ctx))
	}
	if !m.readOnly && !m.idempotent && t.Kind() == core.TurnTask {
		t.SetEffects(m.effect)
	}
	if m.opts.Detached {
		t = t.Detached()
	}
	return e, t, nil
}

// prepare fills the record. w is the call itself, or the larger record that it is part of.
func (c *call[G, A, R]) prepare(w anyCall, m *method[G, A, R], e *Engine, t *core.Turn) {
	c.method, c.mail.msg = m, w
	c.Future.Init(w, t, t.Next(), m.gated)
	switch {
	case m.opts.NoLimit:
	case m.opts.Deadline != 0:
		c.until = core.After(e.cfg.Now(), m.opts.Deadline)
	default:
		c.until = e.cfg.Rough() + int64(defaultDeadline)
	}
}

func (m *method[G, A, R]) submit(ctx context.Context, id ID, arg A) core.Ref[R] {
	e, t, err := m.check(ctx, id)
	if err != nil {
		return core.FailedRef[R](err)
	}
	if m.opts.Retried {
		return m.submitRetried(e, t, id, arg, core.Ref[A]{})
	}
	var w anyCall
	var c *call[G, A, R]
	if e.cfg.Cluster == nil {
		c = &call[G, A, R]{}
		w = c
	} else {
		w, c = m.record(e, id.Key)
	}
	c.prepare(w, m, e, t)
	if j := t.Job(); j.Inspect != nil {
		place := m.place
		if place == "" {
			place = core.CallSite(programsCaller)
		}
		if arg, err = core.HandOver(j, "argument of "+m.entry.Name+place, arg); err != nil {
			return core.FailedRef[R](err)
		}
	}
	c.arg = arg
	if err := e.deliver(m.kind, id.Key, w); err != nil {
		return core.FailedRef[R](fmt.Errorf("call %s: %w", e.bind(m.kind).nameOf(id.Key, m.entry), err))
	}
	return core.RefTo(&c.Result)
}

// onCall is a call that waits for its argument first.
type onCall[G, A, R any] struct {
	call[G, A, R]
	engine *Engine
	key    string
	ref    core.Ref[A]
	waiter core.Waiter
	needs  atomic.Pointer[core.Future] // of ref, while it waits
}

// Waits implements core.Work.
func (o *onCall[G, A, R]) Waits() ([]*core.Turn, []*core.Future) {
	if c := o.needs.Load(); c != nil {
		return nil, []*core.Future{c}
	}
	return o.call.Waits()
}

func (m *method[G, A, R]) submitOn(ctx context.Context, id ID, arg core.Ref[A]) core.Ref[R] {
	if core.FutureOf(arg.Link) == nil {
		return core.FailedRef[R](fmt.Errorf("call %s: %w: the argument is the zero Ref", m.entry.Name, raysys.ErrInvalidRef))
	}
	e, t, err := m.check(ctx, id)
	if err != nil {
		return core.FailedRef[R](err)
	}
	if err := core.FutureOf(arg.Link).Borrow(t); err != nil {
		return core.FailedRef[R](fmt.Errorf("call %s: %w", m.entry.Name, err))
	}
	if m.opts.Retried {
		var none A
		return m.submitRetried(e, t, id, none, arg)
	}
	o := &onCall[G, A, R]{engine: e, key: id.Key, ref: arg}
	o.prepare(o, m, e, t)
	o.needs.Store(core.FutureOf(arg.Link))
	if !core.FutureOf(arg.Link).Subscribe(&o.waiter, o) {
		o.Resolved(nil)
	}
	return core.RefTo(&o.Result)
}

// Stopped implements core.Stoppable.
func (o *onCall[G, A, R]) Stopped() {
	if c := o.needs.Load(); c != nil {
		c.Lapse()
	}
	o.call.Stopped()
}

// Lapsed implements core.Lapsing, and Swept does.
func (o *onCall[G, A, R]) Lapsed() bool { return o.Future.Settled() }

// Swept implements core.Lapsing.
func (o *onCall[G, A, R]) Swept() {
	core.FutureOf(o.ref.Link).Return()
	o.ref = core.Ref[A]{}
	o.needs.Store(nil)
}

// Resolved implements core.Resolved: the argument is there, so the call takes its place.
func (o *onCall[G, A, R]) Resolved(w *core.Waiter) {
	v, here, err := valueOrWait(o.ref, w, &o.waiter, o)
	if !here {
		return
	}
	core.FutureOf(o.ref.Link).Return()
	if err == nil {
		v, err = core.HandOver(o.Future.Up().Job(), "argument by reference of "+o.method.entry.Name, v)
	}
	// The result must not keep the argument.
	o.ref, o.waiter = core.Ref[A]{}, core.Waiter{}
	o.needs.Store(nil)
	if err == nil {
		o.arg = v
		err = o.engine.deliver(o.method.kind, o.key, o)
	}
	if err != nil {
		o.Future.Fail(err)
		return
	}
	core.Recheck(&o.Future)
}
