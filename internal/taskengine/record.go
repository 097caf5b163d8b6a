package taskengine

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/tally"
)

// spec is what all submissions of one handle share.
type spec struct {
	*definition
	opts  core.Options
	need  ledger.Need
	plain bool // asks for one CPU, on any node: its tasks go through the run queue

	labels string // of opts, as they are sent

	before  int  // attempts that came before the first of these tasks, which Retries does not count
	remakes bool // these tasks make a lost value again
	stays   bool // they were placed by other things than room, by the node that sent them
}

// record is one task: its future, its specification and its context in one allocation, a recordOf. Options, children, deadlines
// and dependencies hang off its Turn, made when needed.
type record struct {
	spec   *spec
	Future core.Future // the last: the value follows it
}

// recordOf is a record and what follows it in memory: its value and its argument. For an int argument and an int result that is
// 96 bytes. It has no methods: they would be compiled for each type, so plain code goes by the offsets in the definition.
type recordOf[A, R any] struct {
	record record
	val    R
	arg    A
}

// argAt is where the argument is.
func (r *record) argAt() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(r), r.spec.argOffset) }

// argBytes are the bytes that the argument holds beyond the record.
func (r *record) argBytes() int64 {
	if r.spec.fixed {
		return 0
	}
	return int64(r.spec.arg.SizeAt(r.argAt()))
}

// What a record is beyond core.Work.
var (
	_ core.Droppable = (*record)(nil)
	_ core.Limited   = (*record)(nil)
	_ core.Stoppable = (*record)(nil)
	_ core.Remaker   = (*record)(nil)
	_ batch          = (*bulkItem)(nil)
)

// ValueType says what the Future's value is.
func (r *record) ValueType() *core.ValueType { return r.spec.value }

// Name implements core.Work.
func (r *record) Name() string { return r.spec.entry.Name }

// Expires implements core.Work.
func (r *record) Expires() int64 {
	if t := r.Future.OwnTurn(); t != nil {
		return t.Deadline()
	}
	return 0
}

// Limit implements core.Limited.
func (r *record) Limit() time.Duration { return r.spec.opts.Deadline }

// Waits implements core.Work: a queued task waits for no turn, a held task for its dependencies.
func (r *record) Waits() ([]*core.Turn, []*core.Future) {
	if d := r.deps(); d != nil {
		return nil, d.open()
	}
	return nil, nil
}

// Break implements core.Work: a task never gives way, since its function has not been called.
func (r *record) Break([]string) bool { return false }

// Help implements core.Work. The task runs in place on the goroutine that waits for it: on the CPU of the waiting
// task, or on a free one when a driver or a grain's turn waits.
func (r *record) Help(t *core.Turn) bool {
	e := engineOf(t)
	if r.helpHere(e, t) {
		return true
	}
	if x := e.net.Load(); x != nil {
		x.sendNow()
	}
	return false
}

func (r *record) helpHere(e *Engine, t *core.Turn) bool {
	// A task with a deadline is not run in place: the goroutine that waits must be able to leave when the deadline
	// passes.
	if !r.mayQueue() || !r.Future.Pending() || r.Expires() != 0 {
		return false
	}
	slot, taken := t.Slot(), false
	if slot == nil || slot.CPU != oneCPU {
		if slot = e.takeSlot(); slot == nil {
			return false
		}
		taken = true
	}
	// A slot that was taken for it is this goroutine's alone and starts at depth zero each time.
	if !taken && slot.Depth.Load() >= maxDepth || !r.Future.Start() {
		if taken {
			e.giveSlot(slot)
		}
		return false
	}
	r.runInPlace(e, t, slot, taken)
	return true
}

// runInPlace tidies up also when the task ends the goroutine by runtime.Goexit.
func (r *record) runInPlace(e *Engine, t *core.Turn, slot *core.CPUSlot, taken bool) {
	if taken {
		defer e.giveSlot(slot)
	} else {
		slot.Depth.Add(1)
		defer slot.Depth.Add(-1)
	}
	if t.Kind() != core.TurnRoot {
		b := new(core.Blocked)
		if own := tally.Of(slot); own != nil {
			b.Of = own.Running()
		}
		prev := t.SetBlocked(b, &r.Future)
		defer t.RestoreBlocked(prev)
	}
	r.run(slot)
}

// run executes the claimed task and settles it.
func (r *record) run(s *core.CPUSlot) {
	if !r.compute(s) {
		return
	}
	if r.spec.value.Gated() && r.keepsRecipes() && r.large() {
		r.keepRecipe()
	}
	r.settle()
}

// compute calls the claimed task's function, which puts the value into its place. False when the task has settled without one.
func (r *record) compute(s *core.CPUSlot) (ok bool) {
	e := engineOf(r.Future.Up())
	e.started(r.argBytes())
	if d := r.deps(); d != nil {
		d.releaseFetchPermit()
	}
	if cause := r.cancelled(); cause != nil {
		tallyOf(e, r).Ended(tally.Cancelled, 1)
		r.drop()
		r.Future.Cancel(cause)
		return false
	}
	r.Future.SetSlot(s)
	own := tally.Of(s)
	n := noted{slot: own, of: r.spec.tally.Last(e.cfg.Tally)}
	if n.of == nil {
		n.of = tallyOf(e, r)
	}
	if on := e.cfg.Tally.Recorder(); on != nil {
		n.recorded(on, e, r)
	}
	if own != nil && s.Depth.Load() == 0 {
		n.group = true
		own.Begin(&r.Future) // who has the slot clears it at rest
		if own.Alone.Load() && own.Timed(n.of) {
			n.began = e.now()
		}
	} else {
		n.begin(e, r)
	}
	back, err := r.lend()
	if err == nil {
		err = r.call(e)
	}
	if back != nil {
		back()
	}
	if err != nil {
		n.end(e, r, r.failed(core.HandOverError(r.Future.Up().Job(), err)), err)
		return false
	}
	if j := r.Future.Up().Job(); j.Inspect != nil {
		if err = core.HandOver(j, "result of task "+r.Name(), r.spec.value, r.Future.ValueAt()); err != nil {
			r.Future.Forget()
			n.end(e, r, r.failed(err), err)
			return false
		}
	}
	// A deadline holds also when no waiter has set an alarm for it.
	if r.Expires() != 0 {
		if cause := r.cancelled(); cause != nil {
			r.Future.Forget()
			r.drop()
			r.Future.Cancel(cause)
			n.end(e, r, tally.Cancelled, nil)
			return false
		}
	}
	switch {
	case r.Future.Settled(): // from outside, while it ran
		n.end(e, r, tally.Cancelled, nil)
	case n.group && n.began == 0 && n.event == nil:
		own.OK(n.of)
	default:
		n.end(e, r, tally.OK, nil)
	}
	return true
}

// tallyOf is what counts the runs of the task's function.
func tallyOf(e *Engine, r *record) *tally.Function {
	return r.spec.tally.Of(e.cfg.Tally, tally.TaskKind, r.spec.entry.Name)
}

// count counts a run that did not end well, and says how it ended.
func count(f *tally.Function, r *record, o tally.Outcome, err error) tally.Outcome {
	if err == nil || o == tally.Cancelled {
		f.Ended(o, 1)
		return o
	}
	var why error
	var failed *raysys.TaskError
	if why = err; errors.As(err, &failed) {
		why = failed.Err
		if _, own := why.(*raysys.PanicError); own && o == tally.Error {
			o = tally.Panic
		}
	}
	f.Failed(o, time.Now(), func() tally.Example {
		return tally.Example{Text: why.Error(), ID: r.Future.ID().String(), Stack: raysys.Stack(err)}
	})
	return o
}

// lend gives the function a copy of its argument in strict mode, which back, if it is not nil, checks: another attempt
// needs the argument, and so does a rebuild.
func (r *record) lend() (back func(), err error) {
	j := r.Future.Up().Job()
	if j.Inspect == nil || r.spec.fixed {
		return nil, nil
	}
	if back, err = j.Inspect.Lend("argument of task "+r.Name()+", while it ran,", r.spec.argType.At(r.argAt()).Addr().Interface()); err != nil {
		return nil, r.taskError(err, nil)
	}
	return back, nil
}

// settle resolves the task with the value that is in its place.
func (r *record) settle() {
	r.drop()
	r.Future.Resolve()
	r.endLate()
}

func (r *record) cancelled() error {
	if t := r.Future.OwnTurn(); t != nil {
		return t.Cancelled()
	}
	return r.Future.Up().Cancelled()
}

// drop releases the argument and the dependencies, which the future may outlive by long.
func (r *record) drop() {
	r.emptyArg()
	if t := r.Future.OwnTurn(); t != nil {
		if d := r.deps(); d != nil {
			d.returnParams()
			d.releaseFetchPermit()
			t.Detach()
		}
		if by := t.Effects(); by != nil {
			passEffects(r.Future.Up(), by)
		}
		t.End()
		r.handUp(t)
	}
}

// endLate ends a turn that was made after drop: by settling, or by a goroutine that the task left behind. A child may have
// had effects while the task settled: see passEffects.
func (r *record) endLate() {
	t := r.Future.OwnTurn()
	if t == nil {
		return
	}
	if !t.Ended() {
		t.End()
	}
	if rec := recipeOf(&r.Future); rec != nil && t.Effects() != nil {
		rec.hadEffects(t.Effects())
	}
}

// call runs user code and turns a panic, or the end of the goroutine, into an error.
func (r *record) call(e *Engine) (err error) {
	normal := false
	defer func() {
		if normal {
			return
		}
		if p := recover(); p != nil {
			err = r.taskError(&raysys.PanicError{Value: core.SoundPanic(p)}, debug.Stack())
			if tell := r.Future.Up().Job().Panicked; tell != nil {
				tell(r.Name(), err)
			}
			return
		}
		// runtime.Goexit, as testing's FailNow calls: the goroutine ends, and no caller above will settle the future.
		err = r.taskError(errGoexit, debug.Stack())
		count(tallyOf(e, r), r, tally.Error, err)
		r.settleFailed(err)
	}()
	if d := e.cfg.Detour; d == nil {
		err = r.spec.call(&r.Future, r)
	} else {
		err = around(r, d)
	}
	normal = true
	if err != nil {
		err = r.taskError(core.Sound(err), nil)
	}
	return err
}

// around calls the function, or what stands in for it, inside the node's filters.
func around(r *record, d *detour.Detour) error {
	c, fake := &r.Future, d.Fake(r.spec.entry)
	w := core.NewExecuted(r.Name(), "", func() any { return shownArg(r) })
	err := detour.Run(c, d.Filters, w, func(ctx context.Context) (err error) {
		if fake != nil {
			err = fake(ctx, "", r.argAt(), c.ValueAt())
		} else {
			err = r.spec.call(ctx, r)
		}
		if err == nil {
			w.Returned(c)
		}
		return err
	})
	if err != nil {
		c.Forget() // that of an earlier attempt, or of this one
	}
	return err
}

// shownArg is raysys.Work.Arg.
func shownArg(r *record) any {
	var list []any
	for _, f := range r.spec.fields {
		if !f.of.Nothing() {
			list = append(list, f.of.At(unsafe.Add(r.argAt(), f.at)).Addr().Interface())
		}
	}
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	return list
}

var errGoexit = errors.New("the task ended its goroutine (runtime.Goexit, or testing's FailNow): return an error instead")

// taskError says where err came from. stack is nil but for a panic here: then it is that of the panic that err came
// from.
func (r *record) taskError(err error, stack []byte) error {
	if stack == nil {
		stack = raysys.Stack(err)
	}
	return &raysys.TaskError{
		Task: r.Future.ID(), Function: r.Name(), Node: r.Future.Up().Job().Node, Attempt: r.attempt(), Err: err, Stack: stack,
	}
}

// failed settles the task with err, or arranges another attempt.
func (r *record) failed(err error) tally.Outcome {
	// An error that only reports the task's own end is that end.
	if cause := r.cancelled(); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		r.drop()
		r.Future.Cancel(cause)
		return tally.Cancelled
	}
	o := &r.spec.opts
	attempt := r.attempt()
	if o.RetryIf == nil || r.counted(attempt) > o.Retries || !accepts(o.RetryIf, err) {
		r.settleFailed(err)
		return tally.Error
	}
	r.again(attempt, 1)
	return tally.Retried
}

func (r *record) settleFailed(err error) {
	r.drop()
	r.Future.Fail(err)
	r.endLate()
}

// accepts calls the user's RetryIf; one that panics accepts nothing.
func accepts(f func(error) bool, err error) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return f(err)
}

// Dropped implements core.Droppable: the task has settled without having started. Its place in
// the queue stays until a worker reaches it; its memory is released now. So is that of a task that waits for its inputs.
func (r *record) Dropped(queued bool) {
	e := engineOf(r.Future.Up())
	tallyOf(e, r).Ended(tally.Cancelled, 1)
	if !queued {
		e.unhold(&r.Future)
		if d := r.deps(); d != nil {
			d.abandon()
		}
		e.started(0)
		return
	}
	e.started(r.argBytes())
	r.drop()
	if !r.spec.plain {
		e.droppedShaped(r.spec.need)
	}
}

var errRetried = errors.New("the attempt that submitted this failed, and its next attempt submits it again")

// ready queues a task that was held: its arguments are there, or its pause is over.
func (r *record) ready() {
	e := engineOf(r.Future.Up())
	// Counted before another goroutine can start or drop the task, which subtracts the same count.
	bytes := r.count(e)
	if !r.Future.Unhold() {
		e.started(bytes)
		r.drop()
		return
	}
	e.unhold(&r.Future)
	r.queueOrPlace(e)
}

// count adds the argument to the bytes that are queued.
func (r *record) count(e *Engine) (bytes int64) {
	if !r.spec.fixed {
		bytes = r.argBytes()
		e.bytes.Add(bytes)
	}
	return bytes
}

// queueOrPlace sends the task, which is counted and may start, on its way: into the run queue or the list of its shape,
// where workers find it, or to the node that placement chooses.
func (r *record) queueOrPlace(e *Engine) {
	if e.closed.Load() {
		r.Future.Cancel(raysys.ErrClosed)
		return
	}
	switch d := r.deps(); {
	case d != nil && d.dataLocal.Load() && r.spec.need.Bundle.Group == "":
		e.exchange().place(r)
	case r.spec.remakes && r.spec.plain && e.cfg.Place != nil && e.exchange().sendAhead(r):
	case r.spec.plain:
		e.push(&r.Future)
	case r.spec.need.Bundle.Group != "":
		e.placeInBundle(unplacedTask{task: r})
	case e.cfg.Place != nil && (d == nil || !d.stays):
		e.exchange().place(r)
	default:
		e.pushShaped(&r.Future, r.spec.need)
	}
}
