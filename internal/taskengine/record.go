package taskengine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"
	"unsafe"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/wire"
)

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
		j := r.Future.Up().Job()
		n.end(e, r, r.failed(j.Excuse(core.HandOverError(j, err))), err)
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
	if d := e.cfg.Detour; !d.Passes(&r.Future) {
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
	err := d.Run(c, w, 0, func(ctx context.Context) (err error) {
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
	if core.Excused(err) && gaveWay(r, r.Future.Up().Job().Node) {
		return tally.Retried
	}
	o := &r.spec.opts
	attempt := r.attempt()
	if o.RetryIf == nil || r.counted(attempt) > o.Retries || !accepts(o.RetryIf, err) {
		r.settleFailed(err)
		return tally.Error
	}
	r.arrangeAttempt(attempt, 1)
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
	if e := engineOf(r.Future.Up()); unhold(e, r) {
		r.queueOrPlace(e)
	}
}

// unhold has a held task wait for a node; false when it has settled.
func unhold(e *Engine, r *record) bool {
	// Counted before another goroutine can start or drop the task, which subtracts the same count.
	bytes := r.count(e)
	if !r.Future.Unhold() {
		e.started(bytes)
		r.drop()
		return false
	}
	e.unhold(&r.Future)
	return true
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

func (r *record) settleRecorded(value []byte, inputs []*core.Future) error {
	if err := r.spec.res.DecodeAt(value, r.Future.ValueAt(), inputs); err != nil {
		return fmt.Errorf("the recorded result of task %s: %w", r.Name(), err)
	}
	r.Future.Resolve()
	return nil
}

// deps returns what holds, or held, the task back; nil for one that had nothing to wait for.
func (r *record) deps() *deps {
	if t := r.Future.OwnTurn(); t != nil {
		d, _ := t.Attached().(*deps)
		return d
	}
	return nil
}

// goesToValues implements heldTask.
func (r *record) goesToValues(d *deps) bool {
	e := engineOf(r.Future.Up())
	if e.cfg.Place == nil || d.stays {
		return false
	}
	for _, c := range d.futures {
		if c.Absent() {
			return true
		}
		if w, ok := core.WhereaboutsOf(c); ok && w.Node != "" {
			return true
		}
	}
	return false
}

// keepsParams implements heldTask. An argument that is too large for a frame travels as references: better to the
// values that the program gave, which the other node may have already, than to new objects.
func (r *record) keepsParams(*deps) bool {
	return engineOf(r.Future.Up()).cfg.Place != nil && !r.spec.refs && wire.Exceeds(r.spec.arg, r.argAt(), wire.ValueLimit)
}

// stay has a task that is data-local run on this node, once its values are here. False for one that is not data-local.
func (r *record) stay(e *Engine) bool {
	d := r.deps()
	if d == nil || !d.dataLocal.Load() {
		return false
	}
	bytes := r.argBytes()
	e.hold(&r.Future) // before a goroutine that cancels the task finds it held
	if !r.Future.Rehold() {
		e.unhold(&r.Future)
		e.checkDrained()
		return true // it was cancelled, which did its accounts
	}
	e.started(bytes) // it is counted again when it is ready
	d.stays, d.fetch = true, true
	d.dataLocal.Store(false)
	d.fetchAbsent()
	return true
}

// hold makes r wait for d.
func (r *record) hold(up *core.Turn, d *deps) {
	r.Future.Hold()
	t := r.Future.OwnTurn()
	if t == nil {
		t = core.NewTurn(core.TurnSpec{Kind: core.TurnTask, Name: r.Name(), ID: r.Future.ID(), Up: up, Attempt: 1})
	}
	r.attach(t, d)
	r.Future.SetOwn(t)
}

// attach gives d to r, which is held.
func (r *record) attach(t *core.Turn, d *deps) {
	up := r.Future.Up()
	d.task, d.job = r, up.Job()
	engineOf(up).hold(&r.Future)
	t.Attach(d)
}

// inner makes the task wait, after d, for the references inside its parameters, which are dependencies too.
func (r *record) inner(d *deps, next heldTask) {
	if !r.spec.refs {
		return
	}
	d.onTaken = func() {
		if more := r.dependencies(); len(more) > 0 {
			r.Future.OwnTurn().Pin(more)
			d2 := &deps{task: next, job: d.job, futures: more, remakes: d.remakes, byRef: d.byRef}
			d2.fetchPermit.taken.Store(d.fetchPermit.taken.Swap(false))
			r.Future.OwnTurn().Attach(d2)
			d.task = d2
		}
	}
}

// gaveWay arranges another attempt, on another node, for a task that gave way to the drain of its node; false where
// that is this one's submitter to do, or the task can run nowhere else.
func gaveWay(r *record, node raysys.NodeID) bool {
	e, d := engineOf(r.Future.Up()), r.deps()
	if _, inbound := r.Future.Work().(*inboundTask); inbound || e.cfg.Place == nil || d != nil && d.stays {
		return false
	}
	attempt, ready := r.attempt(), r.ready
	r.excuse(attempt, errClosing)
	pause := min(time.Duration(r.Future.Turn().CountLeave())*leavePause, longestLeavePause)
	if here := node == r.Future.Up().Job().Node; here || !r.spec.plain {
		ready = func() {
			if unhold(e, r) {
				e.exchange().placeAgain(unplacedTask{task: r, avoid: node})
			}
		}
	}
	arrangeNext(r, attempt, 0, pause, ready)
	return true
}

// A task that gave way before waits a little: where it may run on one node alone it comes back until its submitter
// knows that the node drains.
const (
	leavePause        = 100 * time.Millisecond
	longestLeavePause = 5 * time.Second
)

// excuse reports whether an attempt whose node is lost does not count, and notes that.
func (r *record) excuse(attempt int, cause error) bool {
	rec := r.namedRecipe()
	if rec == nil {
		return false
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.ran != attempt && !errors.Is(cause, errClosing) {
		return false
	}
	rec.excused++
	return true
}

// counted is how many attempts Retries counts, up to this one.
func (r *record) counted(attempt int) int {
	n := attempt - r.spec.before
	if rec := r.namedRecipe(); rec != nil {
		rec.mu.Lock()
		n -= rec.excused
		rec.mu.Unlock()
	} else if t := r.Future.OwnTurn(); t != nil {
		n -= int(t.Leaves())
	}
	return n
}

// namedRecipe is the recipe of a task with a name; nil for others.
func (r *record) namedRecipe() *recipe {
	if r.spec.opts.Name == "" {
		return nil
	}
	return recipeOf(&r.Future)
}

// over implements heldTask.
func (r *record) over() bool { return r.Future.Settled() }

// handUp has what waits for the task wait for what submitted it. A recorded task may run again until its outcome is in the
// record, and one with a name no longer than that: see Recipe.SetTold and lineage.
func (r *record) handUp(t *core.Turn) {
	if r.spec.opts.Name != "" {
		return
	}
	if rec := recipeOf(&r.Future); rec != nil && rec.awaitsTelling() {
		return
	}
	if _, inbound := r.Future.Work().(*inboundTask); !inbound && r.Future.Up().Remote() { // in the place of a dead submitter
		t.Drop()
		return
	}
	t.HandUp(r.Future.Up())
}

// join lets a task that is held by d go on once it is known whether it is recorded.
func (r *record) join(j Joiner, d *deps) {
	rec, _ := r.recipeNow()
	if rec == nil {
		d.waitForInputs()
		return
	}
	j.Join(rec, func(src core.Source, err error) {
		switch {
		case err != nil:
			r.refuse(d, err)
		case src == nil:
			d.waitForInputs()
		default:
			r.fetch(src)
		}
	})
}

// fetch asks src for the outcome of the task.
func (r *record) fetch(src core.Source) {
	src.Fetch(reflect.New(r.spec.value.Type).Interface(), func(err error) { r.joined(src, err) })
}

// joined settles a task that another record has run: src has its outcome.
func (r *record) joined(src core.Source, err error) {
	e := engineOf(r.Future.Up())
	elsewhere := (*core.Elsewhere)(nil)
	switch {
	case errors.As(err, &elsewhere):
		src = elsewhere.Source
	case err != nil:
		r.settleFailed(err)
		return
	}
	if rec := recipeOf(&r.Future); rec != nil {
		rec.share(src)
	}
	if r.Future.Forward(src) {
		e.unhold(&r.Future)
		e.started(0)
	}
	r.drop()
}

// appendParams sends the argument as objects of this node, which the peer fetches: it is too large for a frame. They
// are kept while the task is away, for another attempt.
func (r *record) appendParams(dst []byte, refs wire.References) ([]byte, error) {
	t := r.Future.Turn()
	d, ok := t.Attached().(*deps)
	if !ok {
		d = &deps{}
		t.Attach(d)
	}
	params := d.params.Load()
	if params == nil {
		list := r.spec.params(r.argAt())
		for i, p := range list {
			p.makeObject(&r.Future, i)
			if err := p.future.Borrow(t); err != nil {
				return dst, err
			}
		}
		params = &list
		d.params.Store(params)
	}
	futures := make([]*core.Future, len(*params))
	for i, p := range *params {
		futures[i] = p.future
	}
	return wire.AppendParams(dst, refs, futures...)
}

// forwardFrom settles the task with a result that stays where it was computed until it is needed.
func (r *record) forwardFrom(rd *wire.Reader, refs wire.References) error {
	src, size, err := wire.ReadLarge(rd, refs)
	if err != nil {
		return err
	}
	if r.Expires() != 0 && r.ended() {
		return nil
	}
	settle := func() {
		if r.keepsRecipes() {
			r.keepRecipe()
		}
		r.drop()
		r.Future.ForwardSized(src, size)
		r.endLate()
	}
	// The goroutine that reads what the peer sends does not encode a large argument for the recipe.
	if d := r.deps(); (d == nil || d.byRef == nil) && wire.Exceeds(r.spec.arg, r.argAt(), wire.InlineLimit) {
		engineOf(r.Future.Up()).cfg.Pool.Go(goroutines.Func(settle))
		return nil
	}
	settle()
	return nil
}

// Remake implements core.Remaker.
func (r *record) Remake(c *core.Future, lost error, done func(core.Source, error)) {
	e := engineOf(r.Future.Up())
	rec := recipeOf(c)
	if rec == nil {
		why := errOff
		if e.lineage != nil {
			why = errNone
		}
		done(nil, unmade(r.Name(), fmt.Errorf("%w; %w", lost, why)))
		return
	}
	e.remake(rec, lost, done)
}

// fill gives the record its argument, made of the inputs, and submits it.
func (r *record) fill(arg []byte, byRef bool, inputs []*core.Future) error {
	t := r.Future.OwnTurn()
	t.Pin(inputs) // which lets it read what the program has released
	d := &deps{remakes: true}
	if byRef {
		params := r.spec.params(r.argAt())
		for i, p := range params {
			err := p.set(inputs[i])
			if err == nil {
				err = p.future.Borrow(t)
			}
			inputs[i] = p.future // its type may not have been known before
			if err != nil {
				for _, b := range params[:i] {
					b.future.Return()
				}
				return err
			}
		}
		d.futures, d.byRef = inputs, inputs
		d.params.Store(&params)
		r.inner(d, r)
	} else {
		if err := r.spec.arg.DecodeAt(arg, r.argAt(), inputs); err != nil {
			return err
		}
		if r.spec.refs {
			d.futures = r.dependencies()
		}
	}
	r.attach(t, d)
	d.waitForInputs()
	return nil
}

// large reports whether the value, which the task has computed, is an object.
func (r *record) large() bool {
	at := r.Future.ValueAt()
	return core.MayBeLarge(r.spec.value.At(at)) && wire.Exceeds(r.spec.res, at, core.ObjectSize)
}

// keepRecipe is called before a task of this node settles with an object, while it has its argument. One that makes a
// value again has the recipe already.
func (r *record) keepRecipe() {
	t := r.Future.Turn()
	rec := recipeOf(&r.Future)
	if rec == nil {
		var size int64
		rec, size = r.newRecipe(t)
		if known := r.setRecipe(t, rec); known == rec {
			rec.weight.of.enter(rec, size)
		} else {
			rec = known
		}
	}
	if by := t.Effects(); by != nil { // asked after the recipe was set: see passEffects
		rec.cut(&effectsError{by})
	}
}

// keepsRecipes reports whether the node keeps recipes. Where it has no store for objects none is lost.
func (r *record) keepsRecipes() bool {
	up := r.Future.Up()
	return up.Job().Objects != nil && engineOf(up).lineage != nil
}

// newRecipe returns the recipe, and how many bytes it keeps.
func (r *record) newRecipe(t *core.Turn) (rec *recipe, size int64) {
	rec, futures := r.recipeOfArgument(t)
	return rec, rec.refersTo(futures)
}

// recipeOfArgument returns the recipe without its inputs, which are made of futures.
func (r *record) recipeOfArgument(t *core.Turn) (rec *recipe, futures []*core.Future) {
	up := r.Future.Up()
	rec = &recipe{
		spec: r.spec, seq: r.Future.Seq(), attempt: t.Attempt(), redraws: t.Redraws(), future: weak.Make(&r.Future), weight: &weight{of: engineOf(up).lineage},
		up: core.RemoteSpec{Job: up.Job(), Name: up.Name(), ID: up.ID(), Attempt: up.Attempt(), Values: up.Values(), Class: up.Class()},
	}
	if d := r.deps(); d != nil && d.byRef != nil {
		rec.byRef, futures = true, d.byRef
	} else {
		var err error
		if rec.arg, err = r.spec.arg.AppendAt(nil, r.argAt(), &futures); err != nil {
			rec.why = fmt.Errorf("its argument cannot be encoded: %w", err)
			return rec, nil
		}
	}
	return rec, futures
}

// emptyArg drops the argument. One without pointers has nothing to free and can be encoded at any time, and a task of another
// node is recorded by that.
func (r *record) emptyArg() {
	_, inbound := r.Future.Work().(*inboundTask)
	plain, recorded := !r.spec.argType.Gated(), r.Future.Up().Job().Gate != nil && !inbound
	switch {
	case plain && recorded:
		r.Future.SetEmptied()
		return
	case plain:
		return
	case !recorded:
		r.spec.empty(r)
		return
	}
	mu := argLock(&r.Future)
	mu.Lock()
	r.spec.empty(r)
	r.Future.SetEmptied()
	mu.Unlock()
}

// recipeNow implements recordable.
func (r *record) recipeNow() (*recipe, bool) {
	if rec := recipeOf(&r.Future); rec != nil || r.Future.Settled() || !r.keepsRecipes() {
		return rec, false
	}
	t := r.Future.TurnFor()
	mu := argLock(&r.Future)
	mu.Lock()
	if r.Future.Emptied() {
		mu.Unlock()
		return recipeOf(&r.Future), !r.Future.Settled()
	}
	rec, futures := r.recipeOfArgument(t)
	mu.Unlock() // before the recipes of the inputs are asked for, which takes the locks of others
	size := rec.refersTo(futures)
	known := r.setRecipe(t, rec)
	if known == rec {
		rec.weight.of.enter(rec, size)
	}
	return known, false
}

// setRecipe gives the task its recipe, unless it has one, and returns the one that it has.
func (r *record) setRecipe(t *core.Turn, rec *recipe) *recipe {
	mu := argLock(&r.Future)
	mu.Lock()
	defer mu.Unlock()
	if known, ok := t.Recipe().(*recipe); ok {
		rec.weight.give()
		return known
	}
	t.SetRecipe(rec)
	return rec
}

// Begin implements refs.Dormant.
func (r *record) Begin() {
	if rec := recipeOf(&r.Future); rec != nil {
		rec.Begin()
	}
}

// refuse settles a task that was held, and does not run.
func (r *record) refuse(d *deps, err error) {
	d.returnParams()
	r.settleFailed(err)
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
