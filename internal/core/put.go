package core

import (
	"context"
	"errors"
	"unsafe"
)

// object is the Work of a future without work: of a value from Put or Ready, or of a failure that happened before there was any work.
type object ValueType

func (o *object) ValueType() *ValueType     { return (*ValueType)(o) }
func (*object) Name() string                { return "object" }
func (*object) Help(*Turn) bool             { return false }
func (*object) Expires() int64              { return 0 }
func (*object) Waits() ([]*Turn, []*Future) { return nil, nil }
func (*object) Break([]string) bool         { return false }
func (*object) unmade()                     {} // Explain says so

// put makes c, whose value is in place, the future of an object that up submits as its seq-th; nil for one that nothing submits.
func (c *Future) put(t *ValueType, up *Turn, seq uint64) {
	c.work, c.up, c.seq = (*object)(t), up, seq
	if !t.gated || up == nil { // no other goroutine knows it yet
		c.word.Store(phaseReady)
		return
	}
	c.word.Store(flagGated)
	c.Resolve()
}

// Put is raysys.Put, which is its only caller: the place in reports is that caller's.
func Put[T any, O ~func(*PutSpec)](ctx context.Context, v T, opts []O) Ref[T] {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return FailedRef[T](err)
	}
	of := TypeOf[T]()
	o := &Result[T]{val: v}
	if t.job.Inspect != nil {
		if err := HandOver(t.job, "value of Put"+callSite(2), of, o.Future.ValueAt()); err != nil {
			return FailedRef[T](err)
		}
	}
	o.Future.put(of, t, t.Next())
	if len(opts) > 0 {
		if err := publish(ctx, t, &o.Future, opts); err != nil {
			return FailedRef[T](err)
		}
	}
	return RefTo(o)
}

// Hold makes an object of a part of c's argument, the value of t at p, which is too large to travel along.
func Hold(c *Future, part int, t *ValueType, p unsafe.Pointer) *Future {
	o := t.make()
	o.value(t).Set(t.At(p))
	o.put(t, c.up, firstHeld+c.seq<<2+uint64(part))
	return o
}

// FailedOf is FailedRef for a value of t.
func FailedOf(t *ValueType, err error) *Future {
	o := t.make()
	o.work = (*object)(t)
	o.failed(err)
	return o
}

// Own makes an object of a value that the node keeps for itself: its n-th.
func Own[T any](job *Job, n uint64, v T) *Future {
	o := &Result[T]{val: v}
	o.Future.put(TypeOf[T](), job.Top, firstOwn+n)
	return &o.Future
}

// firstOwn is where the numbers of Own begin among the submissions of a job's top.
const firstOwn = 1 << 61

// firstHeld is where the numbers of Hold begin among the submissions of a turn; no program counts that far.
const firstHeld = 1 << 62

// Ready is raysys.Ready.
func Ready[T any](v T) Ref[T] {
	o := &Result[T]{val: v}
	o.Future.put(TypeOf[T](), nil, 0)
	return RefTo(o)
}

// FailedRef returns a reference that has failed with err. Submissions report everything through their
// reference.
func FailedRef[T any](err error) Ref[T] {
	return Ref[T]{Link: Link{FailedOf(TypeOf[T](), err)}}
}

// failed has a future that no other goroutine knows fail with err.
func (c *Future) failed(err error) {
	t := &Turn{}
	t.base = t
	to := failurePhase(err)
	t.failed.Store(&failure{err: err, phase: to})
	c.own.Store(t)
	c.word.Store(to)
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

// Phase is raysys.PhaseOf of a reference to c, which may be nil.
func (c *Future) Phase() Phase {
	if c == nil {
		return PhasePending
	}
	w := c.word.Load()
	if w&flagReleased != 0 {
		return PhaseReleased
	}
	switch w & phaseMask {
	case phaseReady:
		if w&flagAbsent != 0 && errors.Is(c.lostFetch(), ErrObjectLost) {
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
	if f, ok := c.work.(lazy); ok {
		f.wanted()
	}
	// Cancellation is pulled, so an open future in a cancelled scope settles when it is looked at.
	if at := c.work.Expires(); at != 0 {
		c.expire()
	}
	if err := c.up.Cancelled(); err != nil {
		c.Cancel(err)
	}
	if c.Settled() {
		return c.Phase()
	}
	return PhasePending
}

// IDOf returns the id of the submission that produces the value; zero for values of Ready.
func IDOf(l Link) TaskID {
	if l.future == nil {
		return TaskID{}
	}
	return l.future.ID()
}

// CancelOf ends the work behind a reference, and reports whether its future was still open.
func CancelOf(l Link) bool {
	c := l.future
	if c == nil || c.Settled() {
		return false
	}
	var end func()
	if tasks := c.up.job.Tasks; tasks != nil {
		end = tasks.EndTask(c)
	}
	open := c.Cancel(ErrCancelled)
	if open && end != nil {
		end()
	}
	return open
}
