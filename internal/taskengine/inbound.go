package taskengine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// inboundTask is a task of another node that runs here: a record below the turn that stands for the submitting one, so
// that it has the same id, and with it the same raysys.Rand and the same ids of what it submits. It waits in a queue of
// its own and is never sent on.
type inboundTask[A, R any] struct {
	record[A, R]
	waiter   core.Waiter
	tabled   slotted
	from     *peer
	slot     uint64
	answered atomic.Bool
	begun    atomic.Bool // its function was, or is about to be, called
	handing  handing
}

// arrival is an inbound task without its types.
type arrival interface {
	runner
	admit(slot uint64)
	home() (*peer, uint64)
	// place is where it stands in the table of its peer's inbound tasks.
	place() *slotted
	future() *core.Future
	// claimAnswer gives one caller the right and the duty to answer the owner.
	claimAnswer() bool
	answerTold() bool
	// departed does the accounts of an inbound task that leaves the queue without running.
	departed(e *Engine)
	// handed returns the peer that the worker is to uncork: that of an answer it has just made; nil when there is none.
	handed() *peer
}

// inbox is how a frame finds the function: Impl of a task's entry.
type inbox interface {
	// skip passes over an argument; false when that cannot be done without decoding it.
	skip(r *wire.Reader) bool
	// receive reads an argument and makes the task. The error is the task's; in tells of a corrupt frame.
	receive(x *exchange, p *peer, up *core.Turn, seq uint64, h taskHead, in *incoming) (g arrival, err error)
}

// incoming is a frame of tasks while it is read.
type incoming struct {
	wire.Reader
	room any // for the inbound tasks that follow: a *[]inboundTask
}

const (
	// roomSize is how many inbound tasks share an allocation. The last of them to end keeps the memory of all.
	roomSize = 16
	// leastTask is the fewest bytes that a task takes in a frame.
	leastTask = 8
)

// place returns the memory of an inbound task. Inbound tasks that hold no other memory share an allocation with those
// that follow in the frame: sixteen small allocations cost more than all other work for a small task.
func (s *spec[A, R]) place(in *incoming) *inboundTask[A, R] {
	if !s.fixed || s.gated {
		return new(inboundTask[A, R])
	}
	room, _ := in.room.(*[]inboundTask[A, R])
	if room == nil || len(*room) == 0 {
		n := min(1+in.Len()/leastTask/2, roomSize)
		if n == 1 {
			return new(inboundTask[A, R])
		}
		made := make([]inboundTask[A, R], n)
		room = &made
		in.room = room
	}
	g := &(*room)[0]
	*room = (*room)[1:]
	return g
}

// skip implements inbox.
func (s *spec[A, R]) skip(r *wire.Reader) bool {
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

// receive implements inbox.
func (s *spec[A, R]) receive(x *exchange, p *peer, up *core.Turn, seq uint64, h taskHead, in *incoming) (arrival, error) {
	if h.need != nil {
		shaped := *s
		shaped.need, shaped.common = *h.need, false
		s = &shaped
	}
	g, r := s.place(in), &in.Reader
	g.from, g.spec = p, s
	large := r.Large()
	if !large {
		if err := wire.ReadOf(r, s.arg, &g.arg, p); err != nil {
			return nil, fmt.Errorf("read the argument: %w", err)
		}
	}
	g.Init(g, up, seq, s.gated)
	if h.attempt > 1 || h.left > 0 {
		spec := core.TurnSpec{Kind: core.TurnTask, Name: g.Name(), ID: g.ID(), Up: up, Attempt: h.attempt}
		if h.left > 0 {
			spec.Deadline = x.rt.Now() + h.left
		}
		g.SetOwn(core.NewTurn(spec))
	}
	if large {
		if err := g.readParams(r, up, p); err != nil {
			return nil, fmt.Errorf("read the argument: %w", err)
		}
	}
	return g, nil
}

// admit lets the inbound task wait: for the values it refers to, which are fetched, then for a CPU.
func (g *inboundTask[A, R]) admit(slot uint64) {
	g.slot = slot
	x := engineOf(g.Up()).net.Load()
	x.here.Add(1)
	d := g.awaitParams()
	if d == nil && g.spec.refs {
		if futures := g.spec.dependencies(&g.arg); len(futures) > 0 {
			d = &deps{futures: futures}
			g.hold(g.Up(), d)
			d.task = g
			g.OwnTurn().Pin(futures)
		}
	}
	if d == nil {
		g.count(x.e)
	}
	g.Expect(&g.waiter, g)
	switch {
	case g.from.inbound.put(g, &g.tabled):
		g.Cancel(raysys.ErrCancelled)
	case d != nil:
		d.wait()
	default:
		g.enqueue(x)
	}
}

// ready implements held.
func (g *inboundTask[A, R]) ready() {
	x := engineOf(g.Up()).net.Load()
	bytes := g.count(x.e)
	if !g.Unhold() {
		x.e.started(bytes)
		g.drop()
		return
	}
	x.e.held.Add(-1)
	g.enqueue(x)
	x.startInbound()
}

func (g *inboundTask[A, R]) enqueue(x *exchange) {
	if g.spec.common {
		x.inbound.Push(&g.Future)
	} else {
		x.e.pushShaped(&g.Future, g.spec.need)
	}
	// Checked after the task was queued, so that either this goroutine or the one that empties the queue finds it
	// there.
	if x.e.closed.Load() || x.e.draining.Load() {
		x.bounceQueued()
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
func (g *inboundTask[A, R]) run(s *core.Slot) {
	if g.cancelled() == nil {
		g.begun.Store(true)
	}
	v, ok := g.compute(s)
	if !ok {
		return
	}
	if !engineOf(g.Up()).waits() {
		g.handing.open()
	}
	g.settle(v)
}

func (g *inboundTask[A, R]) handed() *peer {
	if !g.handing.take() {
		return nil
	}
	return g.from
}

// Help implements core.Work: no goroutine of this node waits for an inbound task.
func (g *inboundTask[A, R]) Help(*core.Turn) bool { return false }

// An inbound task has been placed.
func (g *inboundTask[A, R]) follows(*deps) bool { return false }
func (g *inboundTask[A, R]) lends(*deps) bool   { return false }

func (g *inboundTask[A, R]) home() (*peer, uint64) { return g.from, g.slot }
func (g *inboundTask[A, R]) place() *slotted       { return &g.tabled }
func (g *inboundTask[A, R]) future() *core.Future  { return &g.Future }
func (g *inboundTask[A, R]) claimAnswer() bool     { return g.answered.CompareAndSwap(false, true) }
func (g *inboundTask[A, R]) answerTold() bool      { return g.answered.Load() }
func (g *inboundTask[A, R]) departed(e *Engine)    { g.depart(e); g.drop() }

// Resolved implements core.Resolved: the inbound task has settled, and its owner gets the outcome.
func (g *inboundTask[A, R]) Resolved(*core.Waiter) {
	x := engineOf(g.Up()).net.Load()
	if !g.claimAnswer() {
		return
	}
	g.from.inbound.remove(g.slot, &g.tabled)
	// A drain waits for the worker of a task that has begun. One that is settled by another goroutine at the moment when its
	// function returns was cancelled, or is late, and its owner knows that.
	waits := !g.begun.Load()
	if waits {
		x.answering.Add(1)
	}
	x.here.Add(-1)
	if v, here := g.Here(); here {
		g.answerValue(x, v)
	} else {
		g.answer(x)
	}
	if waits {
		x.answering.Add(-1)
	}
	x.e.checkDrained()
}

func (g *inboundTask[A, R]) answerValue(x *exchange, v *R) {
	buf := x.beginAnswer(g.from, g.slot)
	out, err := wire.AppendResultOf(append(*buf, resultValue), g.spec.res, v, &g.Future, g.from)
	if err != nil {
		out = wire.AppendError(append(*buf, resultError), g.unsent(err))
	}
	x.endAnswer(g.from, buf, out, &g.handing)
}

func (g *inboundTask[A, R]) unsent(err error) error {
	return g.taskError(fmt.Errorf("send the result to node %s: %w", g.from.Node(), err), nil)
}

// answer sends the owner the outcome of an inbound task that has no value here.
func (g *inboundTask[A, R]) answer(x *exchange) {
	v, err := g.Outcome()
	if err != nil && g.Absent() {
		v, err = nil, nil // it answers by reference
	}
	x.answer(g.from, g.slot, func(dst []byte) ([]byte, error) {
		switch {
		case err == nil:
			out, bad := wire.AppendResult(append(dst, resultValue), g.spec.res, v, &g.Future, g.from)
			if bad != nil {
				bad = g.unsent(bad)
			}
			return out, bad
		case g.Up().Job().Top.Cancelled() == nil:
			return nil, err
		case g.begun.Load():
			// This node closes, which may have failed the task: that is no outcome of the task.
			return append(dst, resultLost), nil
		default:
			return append(dst, resultBounced), nil
		}
	})
}

// bounce gives an inbound task that has not begun back to its owner. The caller has taken it out of the queue.
func (x *exchange) bounce(g arrival) {
	if !g.future().Start() || !g.claimAnswer() {
		return
	}
	p, slot := g.home()
	p.inbound.remove(slot, g.place())
	x.answering.Add(1)
	x.here.Add(-1)
	x.answer(p, slot, func(dst []byte) ([]byte, error) { return append(dst, resultBounced), nil })
	x.answering.Add(-1)
	g.departed(x.e)
	g.future().Cancel(errBounced)
	x.e.checkDrained()
}

var errBounced = errors.New("the task was given back to its owner")

// bounceQueued gives back all inbound tasks that have not begun.
func (x *exchange) bounceQueued() {
	for c := x.inbound.Pop(); c != nil; c = x.inbound.Pop() {
		if c.Pending() {
			x.bounce(c.Work().(arrival))
		}
	}
	x.e.mu.Lock()
	shaped := x.e.shapes.takeIf(func(c *core.Future) bool { _, ok := c.Work().(arrival); return ok })
	x.e.mu.Unlock()
	x.e.shaped.Add(-int32(len(shaped)))
	for _, w := range shaped {
		x.bounce(w.future.Work().(arrival))
	}
	x.flush()
}
