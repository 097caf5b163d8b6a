package taskengine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// inboundTask is a task of another node that runs here: a record below the turn that stands for the submitting one, so
// that it has the same id, and with it the same raysys.Rand and the same ids of what it submits. It waits in a queue of
// its own and is never sent on.
type inboundTask struct {
	waiter   core.Waiter
	from     *peer
	slot     uint64
	answered atomic.Bool // set by the one that has the right and the duty to answer the owner
	begun    atomic.Bool // its function was, or is about to be, called
	handing  handing
	record   // the last: see record
}

// inboundOf is an inboundTask with its value and its argument, as recordOf is a record.
type inboundOf[A, R any] struct {
	task inboundTask
	val  R
	arg  A
}

// incoming is a frame of tasks while it is read.
type incoming struct {
	wire.Reader
	room room
}

// room is memory for the inbound tasks that follow.
type room struct {
	of   *definition
	next unsafe.Pointer
	left int
}

const (
	// roomSize is how many inbound tasks share an allocation. The last of them to end keeps the memory of all.
	roomSize = 16
	// leastTask is the fewest bytes that a task takes in a frame.
	leastTask = 8
)

// newInbound returns the memory of an inbound task. Inbound tasks that hold no other memory share an allocation with
// those that follow in the frame: sixteen small allocations cost more than all other work for a small task.
func (s *spec) newInbound(in *incoming) *inboundTask {
	if !s.fixed || s.value.Gated() {
		return (*inboundTask)(s.records(1, true))
	}
	if in.room.left == 0 || in.room.of != s.definition {
		n := min(1+in.Len()/leastTask/2, roomSize)
		in.room = room{of: s.definition, next: s.records(n, true), left: n}
	}
	t := (*inboundTask)(in.room.next)
	if in.room.left--; in.room.left == 0 { // a pointer must not be past the end
		in.room = room{}
	} else {
		in.room.next = unsafe.Add(in.room.next, s.inSize)
	}
	return t
}

// skip passes over an argument; false when that cannot be done without decoding it.
func (s *spec) skip(r *wire.Reader) bool {
	if s.refs {
		return false
	}
	ahead := *r
	if ahead.Large() {
		return false
	}
	r.Sized()
	return true
}

// receive reads an argument and makes the task. The error is the task's own. A corrupt frame shows as the error of in, which the
// caller checks.
func (s *spec) receive(x *exchange, p *peer, up *core.Turn, seq uint64, h taskwire.Head, in *incoming) (*inboundTask, error) {
	if h.Need != nil || h.Remakes || h.Stays || h.Labels != "" {
		special := *s
		if special.remakes, special.stays = h.Remakes, h.Stays; h.Need != nil {
			special.need, special.plain = *h.Need, false
		}
		if special.labels = h.Labels; h.Labels != "" {
			special.opts.Labels = taskwire.ReadLabels(h.Labels)
		}
		s = &special
	}
	t, r := s.newInbound(in), &in.Reader
	t.from, t.spec = p, s
	large := r.Large()
	if !large {
		if err := wire.ReadValue(r, s.arg, t.argAt(), p); err != nil {
			return nil, fmt.Errorf("read the argument: %w", err)
		}
	}
	t.Future.Init(t, up, seq, s.value.Gated())
	if up != nil && (h.Attempt > 1 || h.TimeLeft > 0 || h.Classed) { // without its turn it goes back
		spec := core.TurnSpec{Kind: core.TurnTask, Name: t.Name(), ID: t.Future.ID(), Up: up, Attempt: h.Attempt, Redraws: h.Redraws}
		if h.Classed {
			class := h.Class // of which alone this keeps a pointer: h stays on the stack
			spec.Class = &class
		}
		if h.TimeLeft > 0 {
			spec.Deadline = core.After(x.rt.Now(), time.Duration(h.TimeLeft))
		}
		t.Future.SetOwn(core.NewTurn(spec))
	}
	if large {
		if err := t.readParams(r, up, p); err != nil {
			return nil, fmt.Errorf("read the argument: %w", err)
		}
	}
	return t, nil
}

// accept lets the inbound task wait: for the values it refers to, which are fetched, then for a CPU.
func (t *inboundTask) accept(slot uint64) {
	t.slot = slot
	x := t.from.x
	x.arrived(t.spec.plain, +1)
	d := t.awaitParams()
	if d == nil && t.spec.refs {
		if futures := t.dependencies(); len(futures) > 0 {
			d = &deps{futures: futures, remakes: t.spec.remakes}
			t.hold(t.Future.Up(), d)
			d.task = t
			t.Future.OwnTurn().Pin(futures)
		}
	}
	if d == nil {
		t.count(x.e)
	}
	t.Future.Expect(&t.waiter, t)
	switch {
	case t.from.inbound.put(t):
		t.Future.Cancel(&core.Orphaned{Err: raysys.ErrCancelled})
	case d != nil:
		d.wait()
	default:
		t.enqueue(x)
	}
}

// ready implements heldTask.
func (t *inboundTask) ready() {
	x := t.from.x
	bytes := t.count(x.e)
	if !t.Future.Unhold() {
		x.e.started(bytes)
		t.drop()
		return
	}
	x.e.unhold(&t.Future)
	t.enqueue(x)
	x.startInbound()
}

func (t *inboundTask) enqueue(x *exchange) {
	if t.spec.plain {
		x.inbound.Push(&t.Future)
	} else if pushed, err := x.e.pushIn(&t.Future, t.spec.need); err != nil {
		t.settleFailed(t.taskError(err, nil))
	} else if !pushed { // its bundle is on another node by now
		x.giveBack(t)
		x.flush()
	}
	// Checked after the task was queued, so that either this goroutine or the one that empties the queue finds it
	// there.
	if x.e.closed.Load() || x.e.draining.Load() {
		x.giveBackQueued()
		return
	}
}

// startInbound wakes a worker for the inbound tasks that were queued.
func (x *exchange) startInbound() {
	if !x.inbound.Empty() {
		x.e.wake()
		x.watchInbound()
	}
}

// run implements runner.
func (t *inboundTask) run(s *core.CPUSlot) {
	if t.cancelled() == nil {
		t.begun.Store(true)
	}
	if !t.compute(s) {
		return
	}
	if !t.from.x.e.waits() {
		t.handing.open()
	}
	t.settle()
}

// handed returns the peer that the worker is to uncork: that of an answer it has just made; nil when there is none.
func (t *inboundTask) handed() *peer {
	if !t.handing.take() {
		return nil
	}
	return t.from
}

// Help implements core.Work: no goroutine of this node waits for an inbound task.
func (t *inboundTask) Help(*core.Turn) bool { return false }

// An inbound task has been placed.
func (t *inboundTask) goesToValues(*deps) bool { return false }
func (t *inboundTask) keepsParams(*deps) bool  { return false }

// claimAnswer gives one caller the right and the duty to answer the owner.
func (t *inboundTask) claimAnswer() bool { return t.answered.CompareAndSwap(false, true) }

// Resolved implements core.Resolved: the inbound task has settled, and its owner gets the outcome.
func (t *inboundTask) Resolved(*core.Waiter) {
	x := t.from.x
	if !t.claimAnswer() {
		return
	}
	t.from.inbound.remove(t)
	// A drain waits for the worker of a task that has begun. One that is settled by another goroutine at the moment
	// when its function returns was cancelled, or is late, and its owner knows that.
	waits := !t.begun.Load()
	gate := t.Future.Up().Job().Gate
	gated := gate != nil && t.spec.res != nil && t.spec.res.HasRefs() && !t.Future.Failed()
	if waits = waits || gated; waits {
		x.answering.Add(1)
	}
	x.arrived(t.spec.plain, -1)
	if !gated {
		t.tell(x, waits)
		return
	}
	gate.Leave([]*core.Future{&t.Future}, func(err error) { // what the result refers to may leave this node
		if err != nil {
			x.answerError(t.from, t.slot, t.unsent(err))
			x.answering.Add(-1)
			x.e.checkDrained()
			return
		}
		t.tell(x, waits)
	})
}

// tell sends the outcome; waits says that a drain waits for that.
func (t *inboundTask) tell(x *exchange, waits bool) {
	if t.Future.Here() {
		t.answerValue(x)
	} else {
		t.answer(x)
	}
	if waits {
		x.answering.Add(-1)
	}
	x.e.checkDrained()
}

func (t *inboundTask) answerValue(x *exchange) {
	buf := x.beginAnswer(t.from, t.slot, t.from.waiting.keep(&t.Future))
	out, err := wire.AppendResult(append(*buf, t.status(taskwire.ResultValue)), t.spec.res, t.Future.ValueAt(), &t.Future, t.from)
	if err != nil {
		out = wire.AppendError(append(*buf, t.status(taskwire.ResultError)), t.unsent(err))
	}
	x.endAnswer(t.from, buf, out, &t.handing)
}

// status is what the owner is told of an outcome.
func (t *inboundTask) status(of byte) byte {
	if own := t.Future.OwnTurn(); own == nil || own.Effects() == nil {
		return of
	}
	if of == taskwire.ResultError {
		return taskwire.ResultErrorEffects
	}
	return taskwire.ResultValueEffects
}

func (t *inboundTask) unsent(err error) error {
	return t.taskError(fmt.Errorf("send the result to node %s: %w", t.from.Node(), err), nil)
}

// answer sends the owner the outcome of an inbound task that has no value here.
func (t *inboundTask) answer(x *exchange) {
	v, err := t.Future.Outcome()
	if err != nil && t.Future.Absent() {
		v, err = nil, nil // it answers by reference
	}
	x.answer(t.from, t.slot, t.from.waiting.keep(&t.Future), func(dst []byte) ([]byte, error) {
		switch {
		case err == nil:
			out, bad := wire.AppendResult(append(dst, t.status(taskwire.ResultValue)), t.spec.res, wire.AddressOf(v), &t.Future, t.from)
			if bad == nil {
				return out, nil
			}
			err = t.unsent(bad)
		case t.Future.Up().Job().Top.Cancelled() == nil:
		case t.begun.Load():
			// This node closes, which may have failed the task: that is no outcome of the task.
			return append(dst, taskwire.ResultLost), nil
		default:
			return append(dst, taskwire.ResultGivenBack), nil
		}
		return wire.AppendErrorTo(append(dst, t.status(taskwire.ResultError)), t.from.Peer, err), nil
	})
}

// arrived counts n more tasks of other nodes that are to be answered.
func (x *exchange) arrived(plain bool, n int64) {
	if !plain {
		x.unansweredShaped.Add(n)
	}
	x.unanswered.Add(n)
}

// giveBack gives an inbound task that has not begun back to its owner. The caller has taken it out of the queue.
func (x *exchange) giveBack(a *inboundTask) {
	if !a.Future.Start() || !a.claimAnswer() {
		return
	}
	a.from.inbound.remove(a)
	x.answering.Add(1)
	x.arrived(a.spec.plain, -1)
	x.answer(a.from, a.slot, false, func(dst []byte) ([]byte, error) { return append(dst, taskwire.ResultGivenBack), nil })
	x.answering.Add(-1)
	a.depart(x.e)
	a.drop()
	a.Future.Cancel(errGivenBack)
	x.e.checkDrained()
}

var errGivenBack = errors.New("the task was given back to its owner")

// giveBackQueued gives back all inbound tasks that have not begun.
func (x *exchange) giveBackQueued() {
	for c := x.inbound.Pop(); c != nil; c = x.inbound.Pop() {
		if c.Pending() {
			x.giveBack(c.Work().(*inboundTask))
		}
	}
	for _, w := range x.e.line.Remove(isInbound) {
		x.e.shaped.Add(-1)
		x.giveBack(w.(shaped).Work().(*inboundTask))
	}
	x.flush()
}
