package taskengine

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

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
func (s *spec[A, R]) check(ctx context.Context) (*Engine, *core.Turn, error) {
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

// submit is Go without the dependencies.
func (s *spec[A, R]) submit(ctx context.Context, arg A) core.Ref[R] {
	e, t, err := s.check(ctx)
	if err != nil {
		return core.FailedRef[R](err)
	}
	if b := capturedBy(t); b != nil {
		s = s.within(b)
	}
	if j := t.Job(); j.Inspect != nil {
		if arg, err = core.HandOver(j, "argument of "+s.entry.String()+core.CallSite(programsCaller), arg); err != nil {
			return core.FailedRef[R](err)
		}
	}
	r := &record[A, R]{spec: s, arg: arg}
	r.Future.Init(r, t, t.Next(), s.gated)
	if s.opts.Deadline != 0 || s.opts.Classed {
		s.ownTurn(r, t)
	}
	if s.refs {
		if futures := s.dependencies(&r.arg); len(futures) > 0 {
			if err := s.roomForHeld(ctx, e, t); err != nil {
				return core.FailedRef[R](err)
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
		return core.RefTo(&r.Result)
	}
	if !e.hasRoom() {
		ran, err := s.overflow(ctx, e, t, r)
		if err != nil {
			return core.FailedRef[R](err)
		}
		if ran { // it may have a further attempt before it, which comes by itself
			return core.RefTo(&r.Result)
		}
	}
	r.count(e)
	r.queueOrPlace(e)
	return core.RefTo(&r.Result)
}

// ownTurn gives the task a turn, with its deadline and its class.
func (s *spec[A, R]) ownTurn(r *record[A, R], t *core.Turn) {
	spec := core.TurnSpec{Kind: core.TurnTask, Name: r.Name(), ID: r.Future.ID(), Up: t, Attempt: 1, Class: s.class()}
	if s.opts.Deadline != 0 {
		spec.Deadline, spec.Limit = core.After(t.Runtime().Now(), s.opts.Deadline), s.opts.Deadline
	}
	r.Future.SetOwn(core.NewTurn(spec))
}

// class is that which the handle gives; nil: that of the turn that submits.
func (s *spec[A, R]) class() *core.Class {
	if !s.opts.Classed {
		return nil
	}
	return &s.opts.Class
}

// overflow is what happens when the queue is full (rule C6). A driver waits for room. A task or a grain's turn must
// not wait, or all CPUs could wait for each other: it runs the child in place, or gets ErrOverloaded.
func (s *spec[A, R]) overflow(ctx context.Context, e *Engine, t *core.Turn, r *record[A, R]) (ran bool, err error) {
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
func (s *spec[A, R]) roomForHeld(ctx context.Context, e *Engine, t *core.Turn) error {
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

func (s *spec[A, R]) full(e *Engine) error {
	return fmt.Errorf("submit %s: %w: the task queue is full (%d tasks, %d bytes of arguments): submit fewer at a time, or raise system.Config.QueueTasks",
		s.entry, raysys.ErrOverloaded, e.Queued(), e.bytes.Load())
}

// dependencies returns the futures that arg refers to with Ref fields, in the order of the fields.
func (s *spec[A, R]) dependencies(arg *A) (futures []*core.Future) {
	s.arg.Refs(reflect.ValueOf(arg).Elem(), func(v core.RefValue) {
		if c := v.RefFuture(); c != nil && v.IsDependency() {
			futures = append(futures, c)
		}
	})
	return futures
}

// With is tasks.Task.With.
func (k Task[A, R]) With(opts ...raysys.Option) Task[A, R] {
	return Task[A, R]{newSpec(k.spec, opts)}
}

// Go is tasks.Task.Go, which is its only caller: a report about the argument names the line that calls that one.
func (k Task[A, R]) Go(ctx context.Context, arg A) raysys.Ref[R] {
	return raysys.Ref[R](k.spec.submit(ctx, arg))
}

// On is tasks.Task.On.
func (k Task[A, R]) On(ctx context.Context, arg raysys.Ref[A]) raysys.Ref[R] {
	return raysys.Ref[R](on(ctx, k.spec, arg.Link))
}

// on submits a task whose parameters are the values behind refs. Each is borrowed now, so that the program may
// release it right after.
func on[A, R any](ctx context.Context, s *spec[A, R], refs ...core.Link) core.Ref[R] {
	e, t, err := s.check(ctx)
	if err != nil {
		return core.FailedRef[R](err)
	}
	if b := capturedBy(t); b != nil {
		s = s.within(b)
	}
	futures := make([]*core.Future, len(refs))
	for i, l := range refs {
		if futures[i] = core.FutureOf(l); futures[i] == nil {
			return core.FailedRef[R](fmt.Errorf("submit %s: %w: parameter %d is the zero Ref", s.entry, raysys.ErrInvalidRef, i+1))
		}
	}
	r := &record[A, R]{spec: s}
	params := s.params(unsafe.Pointer(&r.arg))
	for i, p := range params {
		err := p.set(futures[i])
		if err == nil {
			err = p.future.Borrow(t)
		}
		if err != nil {
			for _, b := range params[:i] {
				b.future.Return()
			}
			return core.FailedRef[R](fmt.Errorf("submit %s: parameter %d: %w", s.entry, i+1, err))
		}
	}
	r.Future.Init(r, t, t.Next(), s.gated)
	if s.opts.Deadline != 0 || s.opts.Classed {
		s.ownTurn(r, t)
	}
	if err := s.roomForHeld(ctx, e, t); err != nil {
		for _, p := range params {
			p.future.Return()
		}
		return core.FailedRef[R](err)
	}
	d := &deps{futures: futures, byRef: futures}
	d.params.Store(&params)
	r.hold(t, d)
	r.inner(d, r)
	return s.release(ctx, t, r, d)
}

// release lets a task that is held by d go on: at once, or when what is recorded of it is known.
func (s *spec[A, R]) release(ctx context.Context, t *core.Turn, r *record[A, R], d *deps) core.Ref[R] {
	if s.opts.Name != "" {
		return s.start(ctx, t, r, d)
	}
	if j := joinerOf(t); j != nil {
		r.join(j, d)
	} else {
		d.wait()
	}
	return core.RefTo(&r.Result)
}
