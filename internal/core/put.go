package core

import (
	"context"
	"errors"
)

// object is a future without work: a value from Put or Ready, or a failure that happened before there was any work.
type object[T any] struct{ Result[T] }

func (o *object[T]) Name() string                { return "object" }
func (o *object[T]) Help(*Turn) bool             { return false }
func (o *object[T]) Expires() int64              { return 0 }
func (o *object[T]) Waits() ([]*Turn, []*Future) { return nil, nil }
func (o *object[T]) Break([]string) bool         { return false }
func (o *object[T]) unmade()                     {} // Explain says so

// Put is raysys.Put, which is its only caller: the place in reports is that caller's.
func Put[T any, O ~func(*PutSpec)](ctx context.Context, v T, opts []O) Ref[T] {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return FailedRef[T](err)
	}
	if t.job.Inspect != nil {
		if v, err = HandOver(t.job, "value of Put"+callSite(2), v); err != nil {
			return FailedRef[T](err)
		}
	}
	o := &object[T]{}
	o.Future.Init(o, t, t.Next(), HasPointers[T]())
	o.Resolve(v)
	if len(opts) > 0 {
		if err := publish(ctx, t, &o.Future, opts); err != nil {
			return FailedRef[T](err)
		}
	}
	return o.Ref()
}

// Hold makes an object of a part of c's argument that is too large to travel along.
func Hold[T any](c *Future, part int, v T) Ref[T] {
	o := &object[T]{}
	o.Future.Init(o, c.up, firstHeld+c.seq<<2+uint64(part), HasPointers[T]())
	o.Resolve(v)
	return o.Ref()
}

// Own makes an object of a value that the node keeps for itself: its n-th.
func Own[T any](job *Job, n uint64, v T) *Future {
	o := &object[T]{}
	o.Future.Init(o, job.Top, firstOwn+n, HasPointers[T]())
	o.Resolve(v)
	return &o.Future
}

// firstOwn is where the numbers of Own begin among the submissions of a job's top.
const firstOwn = 1 << 61

// firstHeld is where the numbers of Hold begin among the submissions of a turn; no program counts that far.
const firstHeld = 1 << 62

// Ready is raysys.Ready.
func Ready[T any](v T) Ref[T] {
	o := &object[T]{}
	o.Future.work = o
	o.Resolve(v)
	return o.Ref()
}

// FailedRef returns a reference that has failed with err. Submissions report everything through their
// reference.
func FailedRef[T any](err error) Ref[T] {
	o := &object[T]{}
	o.Future.work = o
	t := &Turn{}
	t.base = t
	to := failurePhase(err)
	t.failed.Store(&failure{err: err, phase: to})
	o.Future.own.Store(t)
	o.Future.word.Store(to)
	return o.Ref()
}

// Phase is raysys.Phase; the two number the phases alike.
type Phase uint8

// The phases of a future.
const (
	PhasePending Phase = iota
	PhaseReady
	PhaseFailed
	PhaseLost
	PhaseCancelled
	PhaseReleased
)

// PhaseOf is raysys.PhaseOf.
func PhaseOf[T any](r Ref[T]) Phase {
	if r.f == nil {
		return PhasePending
	}
	w := r.f.Future.word.Load()
	if w&flagReleased != 0 {
		return PhaseReleased
	}
	switch w & phaseMask {
	case phaseReady:
		if w&flagAbsent != 0 && errors.Is(r.f.Future.lostFetch(), ErrObjectLost) {
			return PhaseLost
		}
		return PhaseReady
	case phaseFailed:
		return PhaseFailed
	case phaseCancelled:
		return PhaseCancelled
	case phaseLost:
		return PhaseLost
	case phaseReleased:
		return PhaseReleased
	}
	if f, ok := r.f.Future.work.(lazy); ok {
		f.wanted()
	}
	// Cancellation is pulled, so an open future in a cancelled scope settles when it is looked at.
	if at := r.f.Future.work.Expires(); at != 0 {
		r.f.Future.expire()
	}
	if err := r.f.Future.up.Cancelled(); err != nil {
		r.f.Future.Cancel(err)
	}
	if r.f.Future.Settled() {
		return PhaseOf(r)
	}
	return PhasePending
}
