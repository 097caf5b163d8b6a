package taskengine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// taskOf is the task that c is the future of, nil where it is that of other work.
func taskOf(c *core.Future) *record {
	switch w := c.Work().(type) {
	case *record:
		return w
	case *inboundTask:
		return &w.record
	}
	return nil
}

// The methods of a record for a task that another node runs. The record stays here: it is the future, and keeps the
// argument for a further attempt.

// lostError says that a task has been lost with its node as often as it may be.
type lostError struct {
	node     raysys.NodeID
	attempts int
	lost     int // attempts that ended with their node
	cause    error
}

func (e *lostError) Error() string {
	s := fmt.Sprintf("node %s was lost while the task was there, and attempt %d was the last (raysys.Retries allows more)", e.node, e.attempts)
	if e.lost > 1 {
		s += fmt.Sprintf(": each of its %d nodes ended while it ran: os.Exit, a fatal error or out of memory in it?", e.lost)
	} else {
		s += ": os.Exit, a fatal error or out of memory in it?"
	}
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap does not lead to the cause: that a link was closed does not mean that the task was cancelled.
func (e *lostError) Unwrap() []error { return []error{raysys.ErrNodeDead, raysys.ErrOutcomeUnknown} }

var errClosing = errors.New("the node closes")

func (r *record) entry() *core.Entry { return r.spec.entry }

// mayQueue reports whether workers may find the task in a queue: it is plain, and not data-local. A task that waits to go to where its values are must not be found by a worker.
func (r *record) mayQueue() bool {
	if !r.spec.plain {
		return false
	}
	d := r.deps()
	return d == nil || !d.dataLocal.Load()
}

// stays reports whether the task was given to this node with its values, or is placed by other things than room.
func (r *record) stays() bool {
	o := &r.spec.opts
	switch raysys.Strategy(o.Strategy) {
	case "", raysys.Balanced, raysys.Spread: // which leave it to where there is room
	default:
		return true
	}
	if r.spec.stays || len(o.Conditions) > 0 {
		return true
	}
	d := r.deps()
	return d != nil && (d.stays || d.dataLocal.Load())
}

// plain reports whether the task asks for one CPU, on any node, and nothing else.
func (r *record) plain() bool { return r.spec.plain }

func (r *record) request() PlaceRequest {
	q := PlaceRequest{Entry: r.spec.entry, Options: &r.spec.opts, ID: r.Future.ID(), Attempt: r.attempt()}
	if d := r.deps(); d != nil && d.dataLocal.Load() {
		q.Inputs = d.inputs()
	}
	return q
}

func (r *record) attempt() int {
	if t := r.Future.OwnTurn(); t != nil {
		return t.Attempt()
	}
	return 1
}

// depart updates the counters for a task that leaves the queue.
func (r *record) depart(e *Engine) {
	e.started(r.argBytes())
	if d := r.deps(); d != nil {
		d.releaseFetchPermit()
	}
}

// ended settles a claimed task that was cancelled before it left, and reports whether it was.
func (r *record) ended() bool {
	cause := r.cancelled()
	if cause == nil {
		return r.Future.Settled()
	}
	r.drop()
	r.Future.Cancel(cause)
	return true
}

// headless reports whether head would say nothing: most tasks have no turn of their own and ask for one CPU.
func (r *record) headless() bool {
	return r.spec.plain && !r.spec.remakes && r.Future.OwnTurn() == nil
}

// head returns what a frame has of the task beyond the argument: attempt, time left, resources.
func (r *record) head(rt core.Runtime) taskwire.Head {
	h := taskwire.Head{Attempt: 1}
	if t := r.Future.OwnTurn(); t != nil {
		h.Attempt, h.Redraws = t.Attempt(), t.Redraws()
		if at := t.Deadline(); at != 0 {
			h.TimeLeft = max(at-rt.Now(), 1)
		}
		if h.Classed = t.Class() != r.Future.Up().Class(); h.Classed {
			h.Class = t.Class()
		}
	}
	if !r.spec.plain && !r.spec.oneCPU() {
		h.Need = &r.spec.need
	}
	h.Placed = !r.mayQueue()
	if !r.spec.plain {
		h.Stays, h.Labels = r.stays(), r.spec.labels
	}
	h.Remakes = r.spec.remakes
	return h
}

// appendArg appends the argument.
func (r *record) appendArg(dst []byte, refs wire.References) ([]byte, error) {
	if d := r.deps(); d != nil && d.dataLocal.Load() && d.params.Load() != nil {
		return r.appendParams(dst, refs)
	}
	v := r.argAt()
	if r.spec.fixed {
		return wire.AppendValue(dst, r.spec.arg, v, refs)
	}
	if wire.Exceeds(r.spec.arg, v, wire.ValueLimit) {
		return r.appendParams(dst, refs)
	}
	exports, _ := refs.(wire.PendingExports)
	mark := 0
	if exports != nil {
		mark = exports.Mark()
	}
	out, err := wire.AppendValue(dst, r.spec.arg, v, refs)
	if errors.Is(err, raysys.ErrTooLarge) {
		if exports != nil {
			exports.TakeBack(mark, exports.Mark())
		}
		return r.appendParams(dst, refs)
	}
	return out, err
}

// unstart returns a claimed task that no node has begun to the tasks that wait here; false when it has settled.
func (r *record) unstart(e *Engine) bool {
	bytes := r.count(e)
	if r.Future.Unstart() {
		return true
	}
	e.started(bytes)
	r.drop()
	return false
}

// Stopped implements core.Stoppable.
func (r *record) Stopped() {
	if r.Future.Away() {
		if x := engineOf(r.Future.Up()).net.Load(); x != nil {
			x.stopped(&r.Future)
		}
	}
}

// hadEffects notes what the peer says of the task: see Turn.SetEffects. It is called before the next three.
func (r *record) hadEffects(by *core.Effect) { r.Future.Turn().SetEffects(by) }

// resolveFrom takes the value that a peer computed. An error means that the frame is corrupt and the task has not settled.
func (r *record) resolveFrom(rd *wire.Reader, refs wire.References, node raysys.NodeID) error {
	if rd.Large() {
		return r.forwardFrom(rd, refs)
	}
	if err := wire.ReadValue(rd, r.spec.res, r.Future.ValueAt(), refs); err != nil {
		if rd.Err() != nil {
			return err
		}
		r.settleFailed(&raysys.TaskError{
			Task: r.Future.ID(), Function: r.Name(), Node: node, Attempt: r.attempt(), Err: fmt.Errorf("read the result: %w", err),
		})
		return nil
	}
	if r.Expires() != 0 && r.ended() {
		r.Future.Forget()
		return nil
	}
	r.settle()
	return nil
}

// failedThere takes the error that a peer has. RetryIf is the program's, and may take its time, so it does not run on the
// goroutine that reads what the peer sends.
func (r *record) failedThere(p *peer, err error) {
	if core.Excused(err) {
		if p.avoid.CompareAndSwap(false, true) { // until the view says whether it drains, which may have said so before
			p.x.e.later(core.After(p.x.rt.Now(), longestLeavePause), p.avoidAsSeen)
		}
		if gaveWay(r, p.Node()) {
			return
		}
	}
	if r.spec.opts.RetryIf == nil {
		r.failed(err)
		return
	}
	engineOf(r.Future.Up()).cfg.Pool.Go(goroutines.Func(func() { r.failed(err) }))
}

// lost is called when the node on which the task was is gone.
func (r *record) lost(x *exchange, node raysys.NodeID, cause error) {
	if r.ended() {
		r.drop()
		return
	}
	attempt := r.attempt()
	if r.excuse(attempt, cause) {
		r.arrangeAttempt(attempt, 0)
		return
	}
	if r.counted(attempt) > r.spec.opts.Retries {
		r.settleFailed(&raysys.TaskError{
			Task: r.Future.ID(), Function: r.Name(), Node: node, Attempt: attempt,
			Err: &lostError{node: node, attempts: attempt, lost: r.counted(attempt) - int(r.Future.Turn().Redraws()), cause: cause},
		})
		return
	}
	r.arrangeAttempt(attempt, 0)
}

// arrangeAttempt arranges the attempt that follows one that has failed; redraw is 1 where that was the program's failure.
func (r *record) arrangeAttempt(attempt int, redraw uint32) {
	id := r.Future.ID()
	// A draw of its own, so that the task's Rand stays the same in every attempt.
	draw := rand.New(rand.NewPCG(id.Hi, id.Lo+uint64(attempt))).Float64()
	pause := r.spec.opts.Pause(max(r.counted(attempt), 1), draw)
	arrangeNext(r, attempt, redraw, pause, r.ready)
}

// arrangeNext has ready called after a pause, when the next attempt may begin.
func arrangeNext(r *record, attempt int, redraw uint32, pause time.Duration, ready func()) {
	e := engineOf(r.Future.Up())
	e.hold(&r.Future) // before a goroutine that cancels the task finds it held
	redraws := r.Future.Turn().Redraws() + redraw
	last, ok := r.Future.Again(attempt+1, redraws)
	if !ok {
		e.unhold(&r.Future)
		r.drop()
		e.checkDrained()
		return
	}
	// The next attempt starts the children of the failed one again, under the same ids. The turn is cancelled before
	// it ends: work below an ended turn looks past it.
	last.Cancel(&core.Orphaned{Err: errRetried})
	last.End()
	if rec := recipeOf(&r.Future); rec != nil {
		rec.began(attempt+1, redraws)
	}
	rt := r.Future.Up().Runtime()
	rt.SetAlarm(&core.Alarm{At: core.After(rt.Now(), pause), Ring: ready})
}

func (r *record) closed() {
	r.drop()
	r.Future.Cancel(raysys.ErrClosed)
}
