package taskengine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/goroutines"
)

// PlaceRequest asks for the node of a task that wants something else than one CPU, or whose values are on other nodes.
type PlaceRequest struct {
	Entry   *core.Entry
	Options *core.Options // to be read only
	// ID of the task, for strategies that draw.
	ID raysys.TaskID
	// Attempt is which try of the task this is. The first is 1.
	Attempt int
	// Inputs are where the large values are that it needs; empty for a task that has all it needs.
	Inputs []core.Whereabouts
	// Avoid are nodes that have just refused it.
	Avoid []raysys.NodeID
	// Since is when it was placed first, on the runtime's clock; 0 for one without conditions.
	Since int64
	// Move asks whether another node has room now for a task that waits here. Needs are those of a task that another node sent, which
	// then goes back there; of its Options only the labels are known.
	Move  bool
	Needs *core.Resources
}

// temporary is an error of Config.Place that says that a node may come, or become free, that can take the task.
type temporary interface{ Temporary() bool }

// unplacedTask is a task for which Config.Place has found no node yet.
type unplacedTask struct {
	task  *record
	since int64         // on the runtime's clock; 0 for now
	avoid raysys.NodeID // gave it back
}

// place has Config.Place choose the node of a task that does not belong in the run queue, and sends it there or keeps
// it here.
func (x *exchange) place(w *record) {
	x.placeAgain(unplacedTask{task: w})
}

// placeAgain is place for a task that may have waited for a node. nowhere says that no node has what it asks for, however idle.
func (x *exchange) placeAgain(u unplacedTask) (nowhere bool) {
	c, w := &u.task.Future, u.task
	e, r := x.e, w.request()
	if u.avoid != "" {
		r.Avoid = []raysys.NodeID{u.avoid}
	}
	if w.spec.need.Bundle.Group != "" {
		e.placeInBundle(u)
		return false
	}
	if len(r.Options.Conditions) > 0 {
		if u.since == 0 {
			u.since = x.rt.Now()
		}
		r.Since = u.since
	}
	for {
		seen := x.deferred.retries.Load()
		to, err := e.cfg.Place(r)
		switch {
		case err != nil && e.mayPass(err, r.Options):
			x.deferUnplaced(u)
			if x.deferred.retries.Load() != seen { // Place may have looked at a view that is over: what the task waits for may have been
				e.RetryUnplaced()
			}
			return errors.Is(err, raysys.ErrNoCapacity)
		case err != nil && w.plain() && w.stay(e): // the run queue waits for nodes
		case err != nil:
			c.Fail(notPlaced(w.entry(), err))
		case to == nil:
			if err := e.fits(w.spec.need); err != nil {
				c.Fail(fmt.Errorf("place %s: %w", w.entry(), err))
				return false
			}
			if !w.stay(e) {
				e.pushShaped(c, w.spec.need)
			}
		default:
			if _, p := e.peer(to); p != nil && x.sendTo(p, w) {
				return false
			}
			// The values need not wait for one node when another can have them brought.
			if len(r.Inputs) > 0 && !slices.Contains(r.Avoid, to.Node()) {
				r.Avoid = append(r.Avoid, to.Node())
				continue
			}
			x.deferUnplaced(u)
			x.retryLater()
		}
		return false
	}
}

// notPlaced says that a task gets no node. What placement found may name the task already.
func notPlaced(entry *core.Entry, err error) error {
	if strings.Contains(err.Error(), entry.String()+": ") {
		return fmt.Errorf("place: %w", err)
	}
	return fmt.Errorf("place %s: %w", entry, err)
}

// mayPass reports whether a task that got err waits for the nodes to change.
func (e *Engine) mayPass(err error, o *core.Options) bool {
	t, _ := err.(temporary)
	return t != nil && t.Temporary() || e.waitsForResources(o) && errors.Is(err, raysys.ErrNoCapacity)
}

func (e *Engine) waitsForResources(o *core.Options) bool { return o.Waits || e.cfg.WaitForResources }

// sendAhead sends a task that makes a lost value again to a node that is full, or not: what fills it may be tasks which wait
// for that value. It returns false when no node takes it now: then it waits as any task does.
func (x *exchange) sendAhead(w *record) bool {
	to, err := x.e.cfg.Place(w.request())
	if err != nil || to == nil {
		return false
	}
	_, p := x.e.peer(to)
	return p != nil && x.sendTo(p, w)
}

// deferUnplaced keeps a task that has no node until the view changes.
func (x *exchange) deferUnplaced(u unplacedTask) {
	if u.since == 0 {
		u.since = x.rt.Now()
	}
	x.deferred.mu.Lock()
	defer x.deferred.mu.Unlock()
	x.e.unqueued.Add(1)
	x.deferred.unplaced = append(x.deferred.unplaced, u)
}

// sendTo sends one task to p; false when p does not take it.
func (x *exchange) sendTo(p *peer, w *record) bool {
	if _, ok := p.Runs(w.entry()); !ok || p.full.Load() || p.inflight.Load() >= forwarding.MaxFlights {
		return false
	}
	x.mu.Lock()
	x.out.p, x.out.entry = p, nil
	x.add(p, w)
	x.ship()
	x.out.p = nil
	x.mu.Unlock()
	x.flush()
	return true
}

// RetryUnplaced is called when more is known of where tasks may go. It does not block.
func (e *Engine) RetryUnplaced() {
	if x := e.net.Load(); x != nil {
		e.cfg.Pool.Go(goroutines.Func(x.retryUnplaced))
	}
}

// retryUnplaced places the tasks again that have no node. The caller does not hold the right to send.
func (x *exchange) retryUnplaced() {
	x.deferred.retries.Add(1)
	x.deferred.mu.Lock()
	list := x.deferred.unplaced
	x.deferred.unplaced = nil
	x.deferred.mu.Unlock()
	x.e.unqueued.Add(-int64(len(list)))
	nowhere := map[*core.Options]bool{} // of tasks of one handle all go somewhere, or none does
	for _, w := range list {
		switch o := w.task.request().Options; {
		case !w.task.Future.Pending():
		case nowhere[o]:
			x.deferUnplaced(w)
		case x.placeAgain(w):
			nowhere[o] = true
		}
	}
}
