package taskengine

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Runtime is what the core.Runtime of a node must have too, to run tasks.
type Runtime interface{ Tasks() *Engine }

func engineOf(t *core.Turn) *Engine { return t.Runtime().(Runtime).Tasks() }

// Of returns the engine of the node that ctx is of, nil without one.
func Of(ctx context.Context) *Engine {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	return engineOf(t)
}

// check makes the checks of every submission and returns the engine and the turn to submit under.
func (s *spec) check(ctx context.Context) (*Engine, *core.Turn, error) {
	t, own, err := core.TurnOf(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
	}
	e := engineOf(t)
	switch {
	case !s.entry.In(e.cfg.Table):
		return nil, nil, fmt.Errorf("submit: %w", s.entry.Unknown())
	case s.opts.Err != nil:
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, s.opts.Err)
	case e.closed.Load():
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, raysys.ErrClosed)
	case !s.plain && s.opts.Bundle.Captures && s.opts.Bundle.Group == "": // not while the handle is made: a later option may give the group
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, core.ErrCapturesAlone)
	case !s.plain && e.cfg.Place == nil:
		if err := e.fits(s.need); err != nil {
			return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
		}
	}
	if err := ended(ctx, t, own); err != nil {
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
	}
	if s.opts.Name != "" {
		if err := s.startable(ctx, t); err != nil {
			return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
		}
	}
	if s.opts.Detached {
		t = t.Detached()
	}
	return e, t, nil
}

func ended(ctx context.Context, t *core.Turn, own bool) error {
	if err := t.Cancelled(); err != nil {
		return err
	}
	if !own && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", raysys.ErrCancelled, context.Cause(ctx))
	}
	return nil
}

// submit submits r, which has its argument.
func (s *spec) submit(ctx context.Context, r *record) core.Link {
	e, t, err := s.check(ctx)
	if err != nil {
		return s.failed(err)
	}
	if b := capturedBy(t); b != nil {
		s = s.within(b)
	}
	r.spec = s
	if j := t.Job(); j.Inspect != nil {
		if err := core.HandOver(j, "argument of "+s.entry.String()+core.CallSite(programsCaller), s.argType, r.argAt()); err != nil {
			return s.failed(err)
		}
	}
	r.Future.Init(r, t, t.Next(), s.value.Gated())
	if s.opts.Deadline != 0 || s.opts.Classed {
		s.ownTurn(r, t)
	}
	if s.refs {
		if futures := r.dependencies(); len(futures) > 0 {
			if err := s.roomForHeld(ctx, e, t); err != nil {
				return s.failed(err)
			}
			d := &deps{futures: futures}
			r.hold(t, d)
			r.Future.OwnTurn().Pin(futures)
			return s.release(ctx, t, r, d)
		}
	}
	if s.opts.Name != "" {
		d := &deps{}
		r.hold(t, d)
		return s.start(ctx, t, r, d)
	}
	if j := joinerOf(t); j != nil {
		d := &deps{}
		r.hold(t, d)
		r.join(j, d)
		return core.LinkTo(&r.Future)
	}
	if !e.hasRoom() {
		ran, err := s.overflow(ctx, e, t, r)
		if err != nil {
			return s.failed(err)
		}
		if ran { // it may have a further attempt before it, which comes by itself
			return core.LinkTo(&r.Future)
		}
	}
	r.count(e)
	r.queueOrPlace(e)
	return core.LinkTo(&r.Future)
}

// failed is a reference that has failed: submissions report everything through their reference.
func (s *spec) failed(err error) core.Link { return core.LinkTo(core.FailedOf(s.value, err)) }

// ownTurn gives the task a turn, with its deadline and its class.
func (s *spec) ownTurn(r *record, t *core.Turn) {
	spec := core.TurnSpec{Kind: core.TurnTask, Name: r.Name(), ID: r.Future.ID(), Up: t, Attempt: 1, Class: s.class()}
	if s.opts.Deadline != 0 {
		spec.Deadline, spec.Limit = core.After(t.Runtime().Now(), s.opts.Deadline), s.opts.Deadline
	}
	r.Future.SetOwn(core.NewTurn(spec))
}

// class is that which the handle gives; nil: that of the turn that submits.
func (s *spec) class() *core.Class {
	if !s.opts.Classed {
		return nil
	}
	return &s.opts.Class
}

// overflow is what happens when the queue is full (rule C6). A driver waits for room. A task or a grain's turn must
// not wait, or all CPUs could wait for each other: it runs the child in place, or gets ErrOverloaded.
func (s *spec) overflow(ctx context.Context, e *Engine, t *core.Turn, r *record) (ran bool, err error) {
	if t.Kind() == core.TurnRoot {
		if err := e.waitRoom(ctx); err != nil {
			return false, fmt.Errorf("submit %s: %w", s.entry, err)
		}
		return false, nil
	}
	bytes := r.count(e) // run takes it off
	if r.Help(t) {
		return true, nil
	}
	e.started(bytes)
	return false, s.full(e)
}

// roomForHeld is overflow for a task that waits for its arguments first, and so cannot run in place.
func (s *spec) roomForHeld(ctx context.Context, e *Engine, t *core.Turn) error {
	if e.hasRoom() {
		return nil
	}
	if t.Kind() != core.TurnRoot {
		return s.full(e)
	}
	if err := e.waitRoom(ctx); err != nil {
		return fmt.Errorf("submit %s: %w", s.entry, err)
	}
	return nil
}

func (s *spec) full(e *Engine) error {
	return fmt.Errorf("submit %s: %w: the task queue is full (%d tasks, %d bytes of arguments): submit fewer at a time, or raise system.Config.QueueTasks",
		s.entry, raysys.ErrOverloaded, e.Queued(), e.bytes.Load())
}

// dependencies returns the futures that the argument refers to with Ref fields, in the order of the fields.
func (r *record) dependencies() (futures []*core.Future) {
	r.spec.arg.RefsAt(r.argAt(), func(v core.RefValue) {
		if c := v.RefFuture(); c != nil && v.IsDependency() {
			futures = append(futures, c)
		}
	})
	return futures
}

// With is the With of the handles.
func (k Task) With(opts []raysys.Option) Task { return Task{newSpec(k.spec, opts)} }

// Go is the Go of the handles, which are its only callers: a report about the argument names the line that calls those.
func Go[A, R any](ctx context.Context, k Task, arg A) core.Link {
	r := new(recordOf[A, R])
	r.arg = arg
	return k.spec.submit(ctx, &r.record)
}

// Go0, Go2 and Go3 are Go for functions with none, two and three parameters.
func Go0[R any](ctx context.Context, k Task) core.Link {
	return k.spec.submit(ctx, &new(recordOf[none, R]).record)
}

// Go2 is for two.
func Go2[A, B, R any](ctx context.Context, k Task, a A, b B) core.Link {
	r := new(recordOf[args2[A, B], R])
	r.arg.A, r.arg.B = a, b
	return k.spec.submit(ctx, &r.record)
}

// Go3 is for three.
func Go3[A, B, C, R any](ctx context.Context, k Task, a A, b B, c C) core.Link {
	r := new(recordOf[args3[A, B, C], R])
	r.arg.A, r.arg.B, r.arg.C = a, b, c
	return k.spec.submit(ctx, &r.record)
}

// On is the On of the handles: it submits a task whose parameters are the values behind refs. Each is borrowed now, so that the
// program may release it right after.
func (k Task) On(ctx context.Context, refs ...core.Link) core.Link {
	s := k.spec
	e, t, err := s.check(ctx)
	if err != nil {
		return s.failed(err)
	}
	if b := capturedBy(t); b != nil {
		s = s.within(b)
	}
	futures := make([]*core.Future, len(refs))
	for i, l := range refs {
		if futures[i] = core.FutureOf(l); futures[i] == nil {
			return s.failed(fmt.Errorf("submit %s: %w: parameter %d is the zero Ref", s.entry, raysys.ErrInvalidRef, i+1))
		}
	}
	r := s.record()
	params := s.params(r.argAt())
	for i, p := range params {
		err := p.set(futures[i])
		if err == nil {
			err = p.future.Borrow(t)
		}
		if err != nil {
			for _, b := range params[:i] {
				b.future.Return()
			}
			return s.failed(fmt.Errorf("submit %s: parameter %d: %w", s.entry, i+1, err))
		}
	}
	r.Future.Init(r, t, t.Next(), s.value.Gated())
	if s.opts.Deadline != 0 || s.opts.Classed {
		s.ownTurn(r, t)
	}
	if err := s.roomForHeld(ctx, e, t); err != nil {
		for _, p := range params {
			p.future.Return()
		}
		return s.failed(err)
	}
	d := &deps{futures: futures, byRef: futures}
	d.params.Store(&params)
	r.hold(t, d)
	r.inner(d, r)
	return s.release(ctx, t, r, d)
}

// record makes a record without argument.
func (s *spec) record() *record {
	r := (*record)(s.records(1, false))
	r.spec = s
	return r
}

// release lets a task that is held by d go on: at once, or when what is recorded of it is known.
func (s *spec) release(ctx context.Context, t *core.Turn, r *record, d *deps) core.Link {
	if s.opts.Name != "" {
		return s.start(ctx, t, r, d)
	}
	if j := joinerOf(t); j != nil {
		r.join(j, d)
	} else {
		d.wait()
	}
	return core.LinkTo(&r.Future)
}
