package grainengine

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
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
func (m *method) check(ctx context.Context, id graindir.ID) (*Engine, *core.Turn, error) {
	e, t, err := m.checked(ctx, id)
	if err == nil && t.Kind() == core.TurnGrain {
		if err := m.callable(t); err != nil {
			return nil, nil, fmt.Errorf("call %s: %w", m.entry.Name, err)
		}
	}
	return e, t, err
}

// checked is check without what only the turns of durable grains must not do.
func (m *method) checked(ctx context.Context, id graindir.ID) (*Engine, *core.Turn, error) {
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

// Gathered makes the checks of a call of the method that will be made as part of a larger one. It returns the turn that submits the call, and
// when that ends by its deadline, 0 for never.
func (f Func) Gathered(ctx context.Context, id graindir.ID) (up *core.Turn, until int64, err error) {
	m := f.m
	if m.transacts() {
		return nil, 0, fmt.Errorf("call %s: %w: a grains.Durable kind counts each call, so none travels as a part of another: declare the method ReadOnly(), or call it alone", m.entry.Name, raysys.ErrBadOption)
	}
	e, up, err := m.check(ctx, id)
	if err == nil && !m.opts.NoLimit {
		until = core.After(e.cfg.Now(), f.Limit())
	}
	return up, until, err
}

// Limit is how long a call of the method may take, where it has a deadline.
func (f Func) Limit() time.Duration { return cmp.Or(f.m.opts.Deadline, defaultDeadline) }

// MethodName is kind.method.
func (f Func) MethodName() string { return f.m.entry.Name }

// NameOf is the name of a call of the method: kind/key.method.
func (f Func) NameOf(id graindir.ID) string {
	return id.Kind + "/" + shown(id.Key) + f.m.entry.Name[len(f.m.kind.name):]
}

// failed is a future that has failed: submissions report everything through their reference.
func (m *method) failed(err error) *core.Future { return core.FailedOf(m.value, err) }

// submission is a call that is being made.
type submission struct {
	engine  *Engine
	key     string
	call    *call
	retried *retried       // in place of call, for a method with Retries, RetryIf or Backoff
	future  *core.Future   // of either
	arg     unsafe.Pointer // where the caller puts the argument between begin and submit
}

// begin makes the record of a call, or returns what has failed.
func (m *method) begin(ctx context.Context, id graindir.ID, s *submission) *core.Future {
	e, t, err := m.check(ctx, id)
	if err != nil {
		return m.failed(err)
	}
	s.engine, s.key = e, id.Key
	if m.opts.Retried {
		s.retried = m.beginRetried(e, t, id)
		s.future = &s.retried.Future
	} else {
		w, c := m.record(e, id.Key)
		c.prepare(w, m, e, t)
		s.call, s.future = c, &c.Future
	}
	s.arg = m.argAt(s.future)
	return nil
}

// submit makes the call, which has its argument.
func (m *method) submit(s *submission) core.Link {
	if s.retried != nil {
		s.retried.attempt()
		return core.LinkTo(s.future)
	}
	if j := s.future.Up().Job(); j.Inspect != nil {
		place := m.place
		if place == "" {
			place = core.CallSite(programsCaller)
		}
		if err := core.HandOver(j, "argument of "+m.entry.Name+place, m.argType, s.arg); err != nil {
			return core.LinkTo(m.failed(err))
		}
	}
	if err := s.engine.deliver(m.kind, s.key, s.call); err != nil {
		return core.LinkTo(m.failed(fmt.Errorf("call %s: %w", s.engine.bind(m.kind).nameOf(s.key, m.entry), err)))
	}
	return core.LinkTo(s.future)
}

// callWith makes a call with a copy of the argument at arg.
func (m *method) callWith(ctx context.Context, id graindir.ID, arg unsafe.Pointer) core.Link {
	var s submission
	if failed := m.begin(ctx, id, &s); failed != nil {
		return core.LinkTo(failed)
	}
	m.argType.At(s.arg).Set(m.argType.At(arg))
	return m.submit(&s)
}

// onCall is a call that waits for its argument first.
type onCall struct {
	engine *Engine
	key    string
	ref    *core.Future
	waiter core.Waiter
	needs  atomic.Pointer[core.Future] // ref, while it waits
	call                               // the last: see there
}

// Waits implements core.Work.
func (o *onCall) Waits() ([]*core.Turn, []*core.Future) {
	if c := o.needs.Load(); c != nil {
		return nil, []*core.Future{c}
	}
	return o.call.Waits()
}

// On is the On of the handles.
func (f Func) On(ctx context.Context, id graindir.ID, arg core.Link) core.Link {
	return core.LinkTo(f.m.submitOn(ctx, id, core.FutureOf(arg)))
}

func (m *method) submitOn(ctx context.Context, id graindir.ID, arg *core.Future) *core.Future {
	if arg == nil {
		return m.failed(fmt.Errorf("call %s: %w: the argument is the zero Ref", m.entry.Name, raysys.ErrInvalidRef))
	}
	e, t, err := m.check(ctx, id)
	if err != nil {
		return m.failed(err)
	}
	if err := arg.Borrow(t); err != nil {
		return m.failed(fmt.Errorf("call %s: %w", m.entry.Name, err))
	}
	if m.opts.Retried {
		r := m.beginRetried(e, t, id)
		r.by = arg
		r.attempt()
		return &r.Future
	}
	o := rareRecord[onCall](m)
	o.engine, o.key, o.ref = e, id.Key, arg
	o.prepare(o, m, e, t)
	o.needs.Store(arg)
	if !arg.Subscribe(&o.waiter, o) {
		o.Resolved(nil)
	}
	return &o.Future
}

// Stopped implements core.Stoppable.
func (o *onCall) Stopped() {
	if c := o.needs.Load(); c != nil {
		c.Lapse()
	}
	o.call.Stopped()
}

// Lapsed implements core.Lapsing, and Swept does.
func (o *onCall) Lapsed() bool { return o.Future.Settled() }

// Swept implements core.Lapsing.
func (o *onCall) Swept() {
	o.ref.Return()
	o.ref = nil
	o.needs.Store(nil)
}

// Resolved implements core.Resolved: the argument is there, so the call takes its place.
func (o *onCall) Resolved(w *core.Waiter) {
	here, err := valueOrWait(o.ref, o.method.argType, o.argAt(), w, &o.waiter, o)
	if !here {
		return
	}
	o.ref.Return()
	if err == nil {
		err = core.HandOver(o.Future.Up().Job(), "argument by reference of "+o.method.entry.Name, o.method.argType, o.argAt())
	}
	// The result must not keep the argument.
	o.ref, o.waiter = nil, core.Waiter{}
	o.needs.Store(nil)
	if err == nil {
		err = o.engine.deliver(o.method.kind, o.key, &o.call)
	}
	if err != nil {
		o.Future.Fail(err)
		return
	}
	core.Recheck(&o.Future)
}
