package core

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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

// CPUSlot stands for the CPU that a goroutine holds while it runs tasks. Tasks that run in place share the CPU slot of
// the task that waits for them. Two of them share no cache line.
type CPUSlot struct {
	Blocked atomic.Int32           // goroutines of the task that wait: the first gives the CPU back, the last takes it again
	Waited  atomic.Bool            // a task has waited on it since the engine last cleared this
	NotOwn  atomic.Bool            // the CPU does not serve this node's tasks: it runs another node's, or none just now
	Parked  atomic.Bool            // a task of another node has it, and waits
	Depth   atomic.Int32           // how many tasks run in place on the goroutine
	CPU     int64                  // what it holds, in thousandths
	Pool    CPUPool                // what that is of; nil for the node
	Within  *Bundle                // what the task that runs submits is in this group; nil for none
	Batch   atomic.Pointer[Future] // the queue entry of many tasks that it is working off
	Noted   any                    // what the engine that made it notes of its tasks; nil for the slot of a grain
	_       [48]byte
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
	next.values, next.class = last.values, last.class
	next.effects.Store(last.effects.Load())
	next.recipe.Store(last.recipe.Load())
	last.passFinals(next)
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

type deadlineError struct {
	what  string
	after time.Duration // 0 where that is not known
}

func (e *deadlineError) Error() string {
	if e.after > 0 {
		return fmt.Sprintf("%s: deadline exceeded after %v (raysys.Deadline sets another)", e.what, e.after)
	}
	return e.what + ": deadline exceeded (raysys.Deadline sets another)"
}
func (e *deadlineError) Unwrap() error { return ErrDeadline }
