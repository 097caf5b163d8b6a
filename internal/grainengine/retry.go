package grainengine

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
)

// usable returns why calls cannot have the options of m, nil when they can. Each change of a handle asks anew, so that
// With and Idempotent may come in any order.
func (m *method) usable() error {
	switch {
	case m.opts.Err != nil:
		return m.opts.Err
	case m.opts.Sized:
		return fmt.Errorf("%w: CPU, GPU, Memory and Resource are for tasks: a grain's turn holds none of them; call a task from the method", raysys.ErrBadOption)
	case m.opts.Classed:
		return fmt.Errorf("%w: Priority is for tasks: a grain does its calls in their order", raysys.ErrBadOption)
	case m.opts.Bundle.Captures && m.opts.Bundle.Group == "":
		return core.ErrCapturesAlone
	case m.opts.Bundle.Group != "" && m.kind.Stateless:
		return fmt.Errorf("%w: a bundle of a placement group for a StatelessWorker, whose activations are on many nodes: give Holds to its kind", raysys.ErrBadOption)
	case len(m.opts.Conditions) > 0 && m.kind.Stateless:
		return fmt.Errorf("%w: OnNode, Near, Not, Prefer and Label of several values for a StatelessWorker, whose activations are on many nodes: give its kind grains.Label", raysys.ErrBadOption)
	case m.opts.Conditional() && m.opts.Bundle.Group != "":
		return core.ErrBesideBundle
	case m.opts.Name != "":
		return fmt.Errorf("%w: Detached(%q): a name is for tasks: submit one that makes the call", raysys.ErrBadOption, m.opts.Name)
	case m.opts.FirstMade != 0 && m.opts.Key == "":
		return fmt.Errorf("%w: FirstMade without a Key, by which a call is recognised: give both", raysys.ErrBadOption)
	case m.opts.Key != "" && !m.transacts():
		return fmt.Errorf("%w: Key(%q): only a grains.Durable kind remembers calls, and none of a ReadOnly method", raysys.ErrBadOption, m.opts.Key)
	case m.opts.Key != "" && m.arg.HasRefs():
		return fmt.Errorf("%w: Key(%q): the argument may hold references, and another run of the program makes others: give values", raysys.ErrBadOption, m.opts.Key)
	case m.transacts() && m.reentrant:
		return fmt.Errorf("%w: Reentrant: a call that comes back would change what the turn of a durable grain has not committed", raysys.ErrBadOption)
	case m.transacts() && m.sent == nil && m.res.HasRefs():
		return fmt.Errorf("%w: the result may hold references, and the reply of a durable grain is stored: return the value, or declare the method ReadOnly()", raysys.ErrBadOption)
	case m.transacts() && m.opts.Retried:
		return fmt.Errorf("%w: Retries, RetryIf and Backoff: a call of a durable grain has one outcome, and is repeated by the runtime until that is known", raysys.ErrBadOption)
	case m.opts.Retried && !m.idempotent:
		return fmt.Errorf("%w: Retries, RetryIf and Backoff repeat a call, which may then run twice: declare the method Idempotent()", raysys.ErrBadOption)
	}
	return nil
}

// retried is a call that may be made several times: the future that the program has. Each attempt is a call of its own
// below a turn of this one, so that all attempts have one id and end with their caller.
//
//	Call ──► attempt ──► value, or an error that is final ──────────────────► the future
//	            ▲    └─► an error that RetryIf accepts, or of the system ─┐
//	            └──────────────────────── pause ◄─────────────────────────┘
type retried struct {
	engine *Engine
	method *method // as the program has it
	once   *method // of one attempt
	id     graindir.ID
	until  int64
	by     *core.Future // the argument where it was given by reference
	made   *core.Future // the attempt
	waiter core.Waiter
	needs  atomic.Pointer[core.Future] // made
	Future core.Future                 // the last: see call
}

// beginRetried makes the record of a call of a method with Retries, RetryIf or Backoff.
func (m *method) beginRetried(e *Engine, t *core.Turn, id graindir.ID) *retried {
	once := *m
	once.idempotent = false // a lost attempt counts
	once.opts.Retried, once.opts.Detached, once.opts.Deadline, once.opts.NoLimit = false, false, 0, true
	if t.Job().Inspect != nil {
		once.place = core.CallSite(programsCaller + 1)
	}
	r := rareRecord[retried](m)
	r.engine, r.method, r.once, r.id = e, m, &once, id
	r.Future.Init(r, t, t.Next(), m.value.Gated())
	switch {
	case m.opts.NoLimit:
	case m.opts.Deadline != 0:
		r.until = core.After(e.cfg.Now(), m.opts.Deadline)
	default:
		r.until = e.cfg.Now() + int64(defaultDeadline)
	}
	return r
}

// attempt makes a call; the one before has failed.
func (r *retried) attempt() {
	if !r.Future.Start() {
		r.end()
		return
	}
	for range r.Future.Turn().Redraws() { // a call of another id draws other numbers
		r.Future.Turn().Next()
	}
	ctx := core.HookContext(r.Future.Turn())
	if r.by == nil {
		r.made = core.FutureOf(r.once.callWith(ctx, r.id, r.method.argAt(&r.Future)))
	} else {
		r.made = r.once.submitOn(ctx, r.id, r.by)
	}
	c := r.made
	if !c.Settled() {
		r.needs.Store(c)
		// The search for cycles finds the attempt by what the turn above it waits for.
		r.Future.Turn().SetBlocked(&core.Blocked{}, c)
	}
	r.waiter = core.Waiter{}
	if r.Future.Settled() { // cancelled while it was made
		c.Cancel(raysys.ErrCancelled)
	}
	if !c.Subscribe(&r.waiter, r) {
		r.Resolved(nil)
		return
	}
	core.Recheck(c)
}

// Resolved implements core.Resolved: the attempt has ended. After a failure the program's RetryIf is called, and a call
// is made: that does not run on the goroutine that settled the attempt.
func (r *retried) Resolved(w *core.Waiter) {
	if r.made.Failure() == nil {
		r.attemptEnded(w)
		return
	}
	r.engine.cfg.Pool.Go(goroutines.Func(func() { r.attemptEnded(w) }))
}

func (r *retried) attemptEnded(w *core.Waiter) {
	here, err := valueOrWait(r.made, r.method.value, r.Future.ValueAt(), w, &r.waiter, r)
	if !here {
		return
	}
	r.Future.Turn().RestoreBlocked(nil)
	if err == nil {
		r.end()
		r.Future.Resolve()
		return
	}
	t := r.Future.Turn()
	err = numbered(err, t.Attempt())
	cause := t.Cancelled()
	if cause != nil || !r.arrangeNext(err, t.Attempt()) {
		r.end()
		r.Future.Fail(err)
	}
}

// numbered returns the failure of a method with the number of the attempt.
func numbered(err error, attempt int) error {
	te, ok := err.(*raysys.TaskError)
	if !ok {
		return err
	}
	n := *te
	n.Attempt = attempt
	return &n
}

// arrangeNext arranges the next attempt, if there is to be one.
func (r *retried) arrangeNext(err error, attempt int) bool {
	o := &r.method.opts
	if attempt > o.Retries || !r.worth(err) {
		return false
	}
	redraws := r.Future.Turn().Redraws()
	if failedBy(err) {
		redraws++
	}
	last, ok := r.Future.Again(attempt+1, redraws)
	if !ok {
		return false
	}
	last.Cancel(errRepeated)
	last.End()
	r.needs.Store(nil)
	id := r.Future.ID()
	pause := o.Pause(attempt, rand.New(rand.NewPCG(id.Hi, id.Lo+uint64(attempt))).Float64())
	rt := r.Future.Up().Runtime()
	rt.SetAlarm(&core.Alarm{At: core.After(rt.Now(), pause), Ring: func() {
		r.engine.cfg.Pool.Go(goroutines.Func(func() {
			if r.Future.Unhold() {
				r.attempt()
			} else {
				r.end()
			}
		}))
	}})
	return true
}

var errRepeated = errors.New("the attempt that submitted this failed, and its next attempt submits it again")

// worth reports whether another attempt may fare better.
func (r *retried) worth(err error) bool {
	if failedBy(err) {
		return r.method.opts.RetryIf != nil && accepts(r.method.opts.RetryIf, err)
	}
	return errors.Is(err, raysys.ErrOutcomeUnknown) || errors.Is(err, raysys.ErrNodeDead) || raysys.Retriable(err)
}

// failedBy reports whether err is a failure of the program's.
func failedBy(err error) bool {
	_, app := err.(*raysys.TaskError)
	return app || errors.Is(err, ErrActivation) && !errors.Is(err, ErrNotLoaded)
}

// accepts calls the program's RetryIf; one that panics accepts nothing.
func accepts(f func(error) bool, err error) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return f(err)
}

// end drops the argument and ends the last attempt's turn.
func (r *retried) end() {
	if t := r.Future.OwnTurn(); t != nil {
		t.End()
	}
	if by := r.by; by != nil {
		r.by = nil
		by.Return()
	}
	r.method.empty(&r.Future)
}

// ValueType says what the Future's value is.
func (r *retried) ValueType() *core.ValueType { return r.method.value }

// Name implements core.Work.
func (r *retried) Name() string {
	return r.engine.bind(r.method.kind).nameOf(r.id.Key, r.method.entry)
}

// Expires implements core.Work.
func (r *retried) Expires() int64 { return r.until }

// Limit is how long the call may take, with all attempts.
func (r *retried) Limit() time.Duration {
	return cmp.Or(r.method.opts.Deadline, defaultDeadline)
}

// Help implements core.Work: the caller is about to wait, so the attempt leaves now.
func (r *retried) Help(t *core.Turn) bool {
	if c := r.needs.Load(); c != nil {
		c.Work().Help(t)
	}
	return false
}

// Waits implements core.Work: for the attempt.
func (r *retried) Waits() ([]*core.Turn, []*core.Future) {
	if c := r.needs.Load(); c != nil {
		return nil, []*core.Future{c}
	}
	return nil, nil
}

// Break implements core.Work: the attempt gives way.
func (r *retried) Break([]string) bool { return false }

// Stopped implements core.Stoppable: the attempt ends with the call.
func (r *retried) Stopped() {
	if c := r.needs.Load(); c != nil {
		c.Cancel(raysys.ErrCancelled)
	}
}
