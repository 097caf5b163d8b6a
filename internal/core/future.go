package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Phases of a future, in the low bits of Future.word. They only ever grow, but for a retry, which goes from running
// back to pending.
const (
	phasePending uint32 = iota
	phaseRunning
	phaseReady // the first of the settled phases
	phaseFailed
	phaseCancelled
	phaseLost
	phaseReleased

	phaseMask uint32 = 7
	// flagWaiting: there are subscribers, so settling must look at waiters. Without it settling is one
	// compare-and-swap.
	flagWaiting uint32 = 8
	// flagGated: the value holds pointers, so that Release can free something and reads take mu.
	flagGated uint32 = 16
	// flagReleased: Release was called while dependants still hold pins.
	flagReleased uint32 = 32
	// flagHeld: the work may not start yet; it waits for its arguments or for the pause before a retry.
	flagHeld uint32 = 64
	// flagAway: the work was started to run on another node.
	flagAway uint32 = 128
	// flagAbsent: the value of a ready future is elsewhere (absent.go). It changes under mu.
	flagAbsent uint32 = 256
	// flagKept: Objects keeps the value, which may be evicted from then on.
	flagKept uint32 = 512
	// flagEmptied: the engine has dropped what the work was made of; it is about to settle, or has.
	flagEmptied uint32 = 1024
	// flagReturned: the work's turn has ended, and its outcome comes later.
	flagReturned uint32 = 2048
)

// Future is the part of a future that needs no type: one record is at once the future, the specification of the work
// and, for a task, its context, so that a task costs one allocation. Everything rare (cancellation, deadline, failure,
// children) lives in the Turn, made when first needed.
type Future struct {
	_    [0]func()        // not comparable: the compiler would make an equality of each record with its types
	_    [0]atomic.Uint64 // a multiple of eight bytes, whatever the machine: see ValueAt
	word atomic.Uint32
	pins int32 // guarded by mu: dependants that still read the value after Release
	seq  uint64
	work Work  // what produces the value, and its typed record
	up   *Turn // the turn that submitted
	own  atomic.Pointer[Turn]
	mu   sync.Mutex // guards waiters, pins and reads of gated values
	// waiters is a list through Waiter.next, which the settler takes whole; of a settled future, its absence
	// (absent.go).
	waiters *Waiter
	slot    *CPUSlot // where the work runs, set by the engine that runs it
}

// Init makes c the future of work submitted by up as its seq-th submission.
func (c *Future) Init(work Work, up *Turn, seq uint64, gated bool) {
	c.work, c.up, c.seq = work, up, seq
	if gated {
		c.word.Store(flagGated)
	}
}

// ID returns the id of the submission, derived when asked for.
func (c *Future) ID() TaskID {
	if c.up == nil {
		return TaskID{}
	}
	if s, ok := c.work.(sourced); ok {
		return s.source().ID()
	}
	return c.up.id.Child(c.seq)
}

// RunID names the submission among those of all runs: with a fixed seed each run has the same ids.
func (c *Future) RunID() TaskID {
	if run := c.up.job.Run; run != 0 {
		return c.ID().derive(runKey, run)
	}
	return c.ID()
}

// Seq is the position of the submission among those of its turn.
func (c *Future) Seq() uint64 { return c.seq }

// Up returns the turn that submitted the work.
func (c *Future) Up() *Turn { return c.up }

// SetSlot records the slot; the caller has started the work.
func (c *Future) SetSlot(s *CPUSlot) { c.slot = s }

// Settled reports whether the future has its outcome.
func (c *Future) Settled() bool { return c.word.Load()&phaseMask >= phaseReady }

// Pending reports whether the work has not started.
func (c *Future) Pending() bool { return c.word.Load()&phaseMask == phasePending }

// Work returns what produces the value.
func (c *Future) Work() Work { return c.work }

// SetEmptied notes that the engine has dropped what the work was made of, and Emptied reports that.
func (c *Future) SetEmptied() { c.word.Or(flagEmptied) }

// Emptied is the counterpart of SetEmptied.
func (c *Future) Emptied() bool { return c.word.Load()&flagEmptied != 0 }

// EndTurn ends the work's turn before the future settles. A context of the work that is used later finds it ended.
func (c *Future) EndTurn() {
	c.word.Or(flagReturned)
	if t := c.own.Load(); t != nil {
		t.End()
	}
}

// turnOver reports whether the turn has ended, also where none was made.
func (c *Future) turnOver() bool { return c.Settled() || c.word.Load()&flagReturned != 0 }

// Start claims the work: of all that try, one gets true, and only while the future is pending and not held.
func (c *Future) Start() bool {
	for {
		w := c.word.Load()
		if w&(phaseMask|flagHeld) != phasePending {
			return false
		}
		if c.word.CompareAndSwap(w, w|phaseRunning) {
			return true
		}
	}
}

// StartAway is Start for work that another node shall run.
func (c *Future) StartAway() bool {
	for {
		w := c.word.Load()
		if w&(phaseMask|flagHeld) != phasePending {
			return false
		}
		if c.word.CompareAndSwap(w, w|phaseRunning|flagAway) {
			return true
		}
	}
}

// Away reports whether the work was started by StartAway.
func (c *Future) Away() bool { return c.word.Load()&flagAway != 0 }

// Unstart undoes StartAway for work that no node has begun to run: it is pending again. It returns false when the work
// has settled meanwhile.
func (c *Future) Unstart() bool {
	for {
		w := c.word.Load()
		if w&(phaseMask|flagAway) != phaseRunning|flagAway {
			return false
		}
		if c.word.CompareAndSwap(w, w&^(phaseMask|flagAway)) {
			return true
		}
	}
}

// Released reports whether the program released the reference. The value goes with the last pin.
func (c *Future) Released() bool {
	return c.word.Load()&flagReleased != 0 || c.word.Load()&phaseMask == phaseReleased
}

// Hold keeps pending work from starting; the submitter calls it before it publishes the future.
func (c *Future) Hold() { c.word.Or(flagHeld) }

// Rehold is Hold for work that others know; false when it has been started or has settled, or is held already.
func (c *Future) Rehold() bool {
	for {
		w := c.word.Load()
		if w&(phaseMask|flagHeld) != phasePending {
			return false
		}
		if c.word.CompareAndSwap(w, w|flagHeld) {
			return true
		}
	}
}

// Unhold lets held work start; false when it has settled meanwhile.
func (c *Future) Unhold() bool {
	for {
		w := c.word.Load()
		if w&(phaseMask|flagHeld) != flagHeld {
			return false
		}
		if c.word.CompareAndSwap(w, w&^flagHeld) {
			return true
		}
	}
}

// Again returns running work to pending, held, for its next attempt, and gives it a fresh turn, so that the children
// of the next attempt get the ids of this one's. redraws is that of the attempt. It returns nil when the future has settled meanwhile.
func (c *Future) Again(attempt int, redraws uint32) (last *Turn, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.word.Load()&phaseMask != phaseRunning {
		return nil, false
	}
	last = c.turn()
	next := NewTurn(TurnSpec{
		Kind: last.kind, Name: last.name, ID: last.id, Up: c.up, Deadline: last.deadline, Limit: last.limit, Attempt: attempt, Redraws: redraws, Attached: last.Attached(),
	})
	next.values, next.class, next.leaves = last.values, last.class, last.leaves
	next.effects.Store(last.effects.Load())
	next.recipe.Store(last.recipe.Load())
	last.passFinals(next.base)
	last.mu.Lock()
	next.pins, last.pins = last.pins, nil // the next attempt reads the same arguments
	last.mu.Unlock()
	c.own.Store(next)
	for {
		w := c.word.Load()
		if w&phaseMask != phaseRunning {
			return nil, false
		}
		if c.word.CompareAndSwap(w, w&^(phaseMask|flagAway|flagReturned)|flagHeld) {
			return last, true
		}
	}
}

func (c *Future) move(from, to uint32) bool {
	for {
		w := c.word.Load()
		if w&phaseMask != from {
			return false
		}
		if c.word.CompareAndSwap(w, w&^phaseMask|to) {
			return true
		}
	}
}

// settle gives the future its outcome, once: the first call wins and wakes the waiters.
func (c *Future) settle(to uint32) bool {
	for {
		w := c.word.Load()
		if w&phaseMask >= phaseReady {
			return false
		}
		if c.word.CompareAndSwap(w, w&^(phaseMask|flagWaiting)|to) {
			if w&flagWaiting != 0 {
				c.wake()
			}
			return true
		}
	}
}

func (c *Future) wake() {
	c.mu.Lock()
	w := c.waiters
	if c.absenceLocked() != nil { // all had left before it settled, and the value is gone already
		w = nil
	} else {
		c.waiters = nil
	}
	c.mu.Unlock()
	c.wakeAll(w)
}

// wakeAll wakes the waiters.
func (c *Future) wakeAll(w *Waiter) {
	for w != nil {
		next := w.next
		w.next = nil
		if w.alarm.Ring != nil {
			c.up.job.Runtime.ClearAlarm(&w.alarm)
		}
		w.to.Resolved(w)
		w = next
	}
}

// Fail settles the future with err: as cancelled where err says so, else as failed. It reports whether it was first.
func (c *Future) Fail(err error) bool {
	f := &failure{err: err, phase: failurePhase(err)}
	// mu orders this against another Fail and against a retry, which changes the turn that holds the failure.
	c.mu.Lock()
	t := c.turn()
	if c.Settled() {
		c.mu.Unlock()
		return false
	}
	t.failed.Store(f)
	for {
		w := c.word.Load()
		if w&phaseMask >= phaseReady {
			c.mu.Unlock()
			return false
		}
		if c.word.CompareAndSwap(w, w&^(phaseMask|flagWaiting)|f.phase) {
			c.mu.Unlock()
			t.watchUnseen(c, f)
			if w&phaseMask == phasePending {
				if d, ok := c.work.(Droppable); ok {
					d.Dropped(w&flagHeld == 0)
				}
			}
			if w&flagWaiting != 0 {
				c.wake()
			}
			return true
		}
	}
}

// Failure returns the failure of a settled future, nil when it is ready or pending; for one whose value is elsewhere,
// why that could not be had when it was last needed.
func (c *Future) Failure() error {
	switch w := c.word.Load(); w & phaseMask {
	case phaseFailed, phaseCancelled, phaseLost:
		f := c.own.Load().failed.Load()
		f.seen.Store(true)
		return f.err
	case phaseReleased:
		return ErrReleased
	case phaseReady:
		if w&flagAbsent != 0 {
			return c.lostFetch()
		}
	}
	return nil
}

// expire is the ring of a deadline's alarm. The wheel is never early, but a node's clock may have been set anew
// between, so the future decides.
func (c *Future) expire() {
	if at := c.work.Expires(); at != 0 && c.up.job.Runtime.Now() >= at {
		c.Cancel(&deadlineError{c.work.Name(), limitOf(c.work)})
	}
}

// limitOf is how long the work may take, 0 where that is not known.
func limitOf(w Work) time.Duration {
	if l, ok := w.(Limited); ok {
		return l.Limit()
	}
	return 0
}

// Cancel ends the work: the future settles as cancelled (or failed by its deadline) at once; a running turn sees it
// through its context, and so does everything it submitted.
func (c *Future) Cancel(cause error) bool {
	if c.Settled() {
		return false
	}
	err := endError(cause)
	if !c.Fail(err) {
		return false
	}
	c.own.Load().cancel(err)
	if s, ok := c.work.(Stoppable); ok {
		s.Stopped()
	}
	return true
}

// Class is that of the work: its own, or that of the turn that submitted it.
func (c *Future) Class() Class {
	if t := c.own.Load(); t != nil {
		return t.class
	}
	return c.up.class
}

// Deadline implements context.Context: the earliest deadline of the work and of everything above it.
func (c *Future) Deadline() (time.Time, bool) { return ownContext{c.Turn()}.Deadline() }

// Done implements context.Context.
func (c *Future) Done() <-chan struct{} { return c.Turn().innerContext().Done() }

// Err implements context.Context.
func (c *Future) Err() error {
	if t := c.own.Load(); t != nil {
		return ownContext{t}.Err()
	}
	if err := contextErr(c.up.Cancelled()); err != nil || !c.turnOver() {
		return err
	}
	return context.Canceled
}

// Value implements context.Context.
func (c *Future) Value(key any) any {
	switch key.(type) {
	case turnKey:
		return c.Turn()
	case valuesKey:
		if t := c.own.Load(); t != nil {
			return t.values
		}
		return c.up.values
	case futureKey:
		return c
	}
	if t := c.own.Load(); t != nil {
		return ownContext{t}.Value(key)
	}
	if c.Err() != nil {
		return ownContext{c.Turn()}.Value(key)
	}
	return nil
}

// state names the phase of c.
func (c *Future) state() string {
	switch c.word.Load() & phaseMask {
	case phaseReady:
		if c.Absent() && c.lostFetch() != nil {
			return "lost"
		}
		return "ready"
	case phaseFailed:
		return "failed"
	case phaseCancelled:
		return "cancelled"
	case phaseLost:
		return "lost"
	case phaseReleased:
		return "released"
	}
	return "pending"
}

// get waits until c has its value, and begins to read it. at is c, or the future that has brought the value from elsewhere.
func (c *Future) get(ctx context.Context, t *Turn, own bool) (at *Future, locked bool, err error) {
	locked, from, err := c.settled(ctx, t, own)
	if from != nil {
		locked, err = from.readBrought(ctx, t, own)
		c = from
	}
	return c, locked, err
}

// settled waits until c has settled, and begins to read it, or returns the future that brings its value when that is elsewhere.
func (c *Future) settled(ctx context.Context, t *Turn, own bool) (locked bool, from *Future, err error) {
	if !c.Settled() {
		if c.word.Load()&flagReleased != 0 && !t.pinned(c) {
			return false, nil, ErrReleased
		}
		if err := await(ctx, t, own, c); err != nil {
			return false, nil, err
		}
	}
	return c.beginRead(t)
}

// readBrought waits until c has brought a value, and begins to read that.
func (c *Future) readBrought(ctx context.Context, t *Turn, own bool) (locked bool, err error) {
	if err := await(ctx, t, own, c); err != nil {
		return false, err
	}
	locked, _, err = c.beginRead(t)
	return locked, err
}

// keep tells Objects of a value that may be large, to which v points. Where it is not yet in c, no other goroutine may see it.
func (c *Future) keep(v any) error {
	o := c.up.job.Objects
	if o == nil || c.word.Load()&flagGated == 0 || !MayBeLarge(reflect.ValueOf(v).Elem()) {
		return nil
	}
	c.word.Or(flagKept)
	kept, err := o.Keep(c, v)
	if !kept || err != nil {
		c.word.And(^flagKept)
	}
	return err
}

// resolvedKept is resolved where there is a store.
func (c *Future) resolvedKept() bool {
	err := c.keep(c.pointer(c.valueType()))
	if err == nil && c.settle(phaseReady) {
		c.settleReleased()
		return true
	}
	c.Forget()
	c.dropped(c.word.Load()&flagKept != 0)
	return err != nil && c.Fail(fmt.Errorf("keep the value of %s: %w", c.work.Name(), err))
}

// settleReleased frees a value that was released before it came.
func (c *Future) settleReleased() {
	if c.word.Load()&flagReleased != 0 {
		if c.valueType() != nil {
			c.release()
		}
	}
}

// dropped tells Objects of a value that it kept. No lock may be held.
func (c *Future) dropped(kept bool) {
	if kept {
		c.up.job.Objects.Drop(c)
	}
}

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

// failed has a future that no other goroutine knows fail with err.
func (c *Future) failed(err error) {
	t := newBase(&base{})
	to := failurePhase(err)
	t.failed.Store(&failure{err: err, phase: to})
	c.own.Store(t)
	c.word.Store(to)
}

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

// Recipe is how the engine that computed c can make its value again: what it gave to SetRecipe. Nil for work without one,
// and once the value is released.
func (c *Future) Recipe() any {
	if t := c.own.Load(); t != nil {
		return t.Recipe()
	}
	return nil
}

// Object reports whether the value of c, which is ready, is or was elsewhere, or is kept by Objects: whether it may be
// lost. A small value is with its future.
func (c *Future) Object() bool {
	w := c.word.Load()
	return w&phaseMask == phaseReady && w&(flagAbsent|flagKept) != 0
}

// Failed reports whether c has settled without a value. One whose value is lost has not.
func (c *Future) Failed() bool {
	p := c.word.Load() & phaseMask
	return p == phaseFailed || p == phaseCancelled || p == phaseLost
}

// Borrowed reports whether c stands for a future of another node.
func (c *Future) Borrowed() bool {
	_, ok := c.work.(sourced)
	return ok || c.Untyped()
}

// at is the future that has the value of c, or brings it: c itself, unless c's was made again in another one.
func (c *Future) at() *Future {
	for c.Absent() {
		h := HeldBy(SourceOf(c))
		if h == nil {
			break
		}
		c = h
	}
	return c
}

// As returns c, or the future that stands for it, where that is in a Result of t.
func (c *Future) As(t *ValueType) (*Future, error) {
	if u, ok := c.work.(untypedWork); ok {
		return u.f.adopt(t)
	}
	if c.valueType() != t {
		return nil, fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, t.Type)
	}
	return c, nil
}

// Release says that the program needs the value of c, which may be nil, no longer.
func (c *Future) Release() {
	if c != nil {
		c.release()
	}
}

// Borrow keeps the value of c readable until Return: a submission by reference borrows at once, so that the program
// may release the reference right after. t is the turn that submits: one that holds a pin may lend a released value on.
func (c *Future) Borrow(t *Turn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.word.Load(); w&flagReleased != 0 && (w&phaseMask == phaseReleased || !t.pinned(c)) {
		return ErrReleased
	}
	c.pins++
	return nil
}

// Return ends a Borrow.
func (c *Future) Return() { c.unpin() }

// PeekInto puts the value of a settled future that was borrowed, one of t, at p; here is false when it is elsewhere, even if it was here
// a moment ago: see Future.Follow.
func (c *Future) PeekInto(t *ValueType, p unsafe.Pointer) (here bool, err error) {
	at, here, err := c.peek(t)
	if at != nil {
		t.At(p).Set(at.value(t))
		at.mu.Unlock()
	}
	return here, err
}

// peek is PeekInto, but for the value, which is that of at, whose mu is locked.
func (c *Future) peek(t *ValueType) (at *Future, here bool, err error) {
	if to := c.at(); to != c {
		if to.valueType() != t {
			return nil, true, fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, t.Type)
		}
		c = to
	}
	if err := c.Failure(); err != nil {
		return nil, true, err
	}
	c.mu.Lock()
	if c.word.Load()&(phaseMask|flagAbsent) != phaseReady {
		c.mu.Unlock()
		return nil, false, nil
	}
	return c, true, nil
}

// Untyped reports whether c is the future of an Untyped: it never settles, and only its source knows anything.
func (c *Future) Untyped() bool {
	_, ok := c.work.(untypedWork)
	return ok
}

// Pin keeps the value of c readable although the program releases it; Unpin ends that. A future that
// another node knows is pinned for it. Pin fails with ErrReleased when the value may be gone.
func (c *Future) Pin() error {
	if c.valueType() == nil {
		if c.Untyped() {
			return nil // no reference here can release it
		}
		return fmt.Errorf("%w: its type is not known here", ErrInvalidRef)
	}
	c.pin()
	if c.word.Load()&phaseMask == phaseReleased {
		c.unpin()
		return ErrReleased
	}
	return nil
}

// Unpin ends Pin.
func (c *Future) Unpin() {
	if c.valueType() != nil {
		c.unpin()
	}
}

// Outcome returns a *T to the value of a settled, pinned future, which must only be read, or its failure. An *Elsewhere
// says that the value is not here.
func (c *Future) Outcome() (value any, err error) {
	c = c.at()
	if err := c.Failure(); err != nil {
		return nil, err
	}
	t := c.valueType()
	if t == nil || !c.Settled() {
		return nil, fmt.Errorf("%w: no value is known here", ErrInvalidRef)
	}
	switch w := c.word.Load(); {
	case w&flagAbsent != 0:
	case w&flagKept == 0:
		return c.pointer(t), nil
	default:
		if v := c.copyOf(t); v != nil {
			return v, nil
		}
		if err := c.Failure(); err != nil { // released this moment
			return nil, err
		}
	}
	return nil, &Elsewhere{SourceOf(c)}
}

// Turn returns the turn of the work behind c, which is made now if it was not needed before. It is called through the
// work's own context, thus by a goroutine of the work, and so knows the slot that runs it.
func (c *Future) Turn() *Turn {
	t := c.turn()
	if t.slot.Load() == nil && c.slot != nil {
		t.slot.Store(c.slot)
	}
	return t
}

// TurnFor is Turn for any goroutine.
func (c *Future) TurnFor() *Turn { return c.turn() }

func (c *Future) turn() *Turn {
	if t := c.own.Load(); t != nil {
		return t
	}
	spec := TurnSpec{Kind: TurnTask, Name: c.work.Name(), ID: c.ID(), Up: c.up, Deadline: c.work.Expires(), Attempt: 1}
	if spec.Deadline != 0 {
		spec.Limit = limitOf(c.work)
	}
	t := NewTurn(spec)
	if d, ok := c.work.(Describer); ok {
		d.Describe(t)
	}
	if !c.own.CompareAndSwap(nil, t) {
		return c.own.Load()
	}
	// Asked for by a goroutine that outlives the work, whose engine looks for such a turn once more after settling.
	if c.turnOver() {
		t.ended.Store(true)
	}
	return t
}

// OwnTurn returns the work's turn if there is one.
func (c *Future) OwnTurn() *Turn { return c.own.Load() }

// SetOwn gives work its turn at submit, when an option or an argument needs one.
func (c *Future) SetOwn(t *Turn) { c.own.Store(t) }

// valueType is that of the Result which c is in, nil where it is in none.
func (c *Future) valueType() *ValueType {
	if t, ok := c.work.(typed); ok {
		return t.ValueType()
	}
	return nil
}

// value is the value of c, which is in a Result of t; it can be set.
func (c *Future) value(t *ValueType) reflect.Value {
	return t.At(c.ValueAt())
}

// pointer is a *T to the value.
func (c *Future) pointer(t *ValueType) any { return c.value(t).Addr().Interface() }

// view is get for a value that is looked at where it is: end, which may be nil, puts it back.
func (c *Future) view(ctx context.Context, sent bool) (t *Turn, at *Future, locked bool, end func(), err error) {
	t, own, err := TurnOf(ctx)
	if err != nil {
		return nil, nil, false, nil, err
	}
	locked, from, err := c.settled(ctx, t, own)
	switch {
	case from == nil:
		return t, c, locked, nil, err
	case !isViewer(from.work.(*fetched).src):
		locked, err = from.readBrought(ctx, t, own)
		return t, from, locked, nil, err
	}
	o, err := open(ctx, t, own, from.work.(*fetched), sent)
	if err != nil {
		return nil, nil, false, nil, err
	}
	locked, _, err = o.future.beginRead(t)
	return t, o.future, locked, o.end, err
}

// Lapse notes that a waiter of c has stopped waiting. Once that is so of more than half, c lets go of them: it may settle
// much later, or never.
func (c *Future) Lapse() {
	c.mu.Lock()
	if c.word.Load()&flagWaiting == 0 || c.waiters == nil { // what stands in waiters then is no subscription
		c.mu.Unlock()
		return
	}
	first := c.waiters
	if first.lapsed++; first.length < minSwept || first.lapsed <= first.length/2 {
		c.mu.Unlock()
		return
	}
	var swept []Lapsing
	length := uint32(0)
	for p := &c.waiters; *p != nil; {
		w := *p
		l, ok := w.to.(Lapsing)
		if !ok || !l.Lapsed() {
			length++
			p = &w.next
			continue
		}
		*p, w.next = w.next, nil
		if w.alarm.Ring != nil {
			c.up.job.Runtime.ClearAlarm(&w.alarm)
		}
		swept = append(swept, l)
	}
	if c.waiters != nil {
		c.waiters.length, c.waiters.lapsed = length, 0
	}
	c.mu.Unlock()
	for _, l := range swept {
		l.Swept()
	}
}

// Subscribe arranges that to.Resolved(w) is called when c settles. It returns false, and does nothing, when c has
// settled already.
func (c *Future) Subscribe(w *Waiter, to Resolved) bool {
	open, _ := c.subscribe(w, to, nil)
	return open
}

// subscribe is Subscribe. again reports whether many, which is to or nil, is among the last that subscribed before.
func (c *Future) subscribe(w *Waiter, to Resolved, many *counter) (open, again bool) {
	w.future, w.to, w.alarm.Ring = c, to, nil
	c.mu.Lock()
	for {
		old := c.word.Load()
		if old&phaseMask >= phaseReady {
			c.mu.Unlock()
			return false, false
		}
		if c.word.CompareAndSwap(old, old|flagWaiting) {
			break
		}
	}
	c.pushLocked(w)
	if many != nil {
		for last, n := w.next, 0; last != nil && n < 8 && !again; last, n = last.next, n+1 {
			k, ok := last.to.(*counter)
			again = ok && k == many
		}
	}
	// Waiters look at deadlines: work without a waiter needs no alarm. The alarm is set under mu, so that wake, which
	// takes mu first, sees it.
	if at := c.work.Expires(); at != 0 {
		w.alarm.At = at
		w.alarm.Ring = c.expire
		c.up.job.Runtime.SetAlarm(&w.alarm)
	}
	c.mu.Unlock()
	if f, ok := c.work.(lazy); ok {
		f.wanted()
	}
	return true, again
}

// pushLocked makes w the first of the list.
func (c *Future) pushLocked(w *Waiter) {
	w.length, w.lapsed = 1, 0
	if first := c.waiters; first != nil {
		w.length, w.lapsed = first.length+1, first.lapsed
	}
	w.next, c.waiters = c.waiters, w
}

// Expect is Subscribe for a future that no other goroutine knows yet.
func (c *Future) Expect(w *Waiter, to Resolved) {
	if c.work.Expires() != 0 {
		c.Subscribe(w, to)
		return
	}
	w.future, w.to = c, to
	c.waiters, w.length = w, 1
	c.word.Store(c.word.Load() | flagWaiting)
}

// Unsubscribe takes w back. Resolved may have been called, or be under way, when it returns false.
func (c *Future) Unsubscribe(w *Waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := &c.waiters; *p != nil; p = &(*p).next {
		if *p == w {
			if *p = w.next; p == &c.waiters && w.next != nil {
				w.next.length, w.next.lapsed = w.length, w.lapsed
			}
			w.next = nil
			if w.alarm.Ring != nil {
				c.up.job.Runtime.ClearAlarm(&w.alarm)
			}
			return true
		}
	}
	return false
}
