package taskengine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/wire"
)

// bundles holds the tasks in placement groups whose bundle has no node yet, or none that can be reached.
//
//	queueOrPlace ──► Config.PlaceInBundle ──┬── a peer ────► sent
//	       ▲                                ├── this node ─► the line of the bundle, or back: it has moved
//	       │                                ├── not yet ───► deferred
//	       └── RetryBundles ◄───────────────┴── never ─────► failed
type bundles struct {
	retrying atomic.Bool // an alarm will ring

	mu       sync.Mutex // guards the rest
	deferred []unplacedTask
	retries  uint64 // how often they were tried again
}

// bundlePause is how long a task waits whose bundle was not where it was to be: the node hears of the place it has now.
const bundlePause = 20 * time.Millisecond

// placeInBundle sends a task to the node of its bundle.
func (e *Engine) placeInBundle(u unplacedTask) {
	c, w := &u.task.Future, u.task
	r := w.request()
	if u.avoid != "" {
		r.Avoid = []raysys.NodeID{u.avoid}
	}
	for {
		e.bundles.mu.Lock()
		seen := e.bundles.retries
		e.bundles.mu.Unlock()
		to, err := e.cfg.PlaceInBundle(r)
		t, _ := err.(temporary)
		gone := false
		switch {
		case err != nil && (t == nil || !t.Temporary()):
			c.Fail(fmt.Errorf("place %s: %w", w.entry(), err))
			return
		case err == nil:
			if e.goesToBundle(to, u) {
				return
			}
			gone = true
		}
		if e.deferBundle(u, seen) {
			if gone {
				e.retryBundlesLater()
			}
			return
		}
	}
}

// goesToBundle sends a task to a peer, or queues it in its bundle here: nil. It returns false when the bundle is not there, or
// the peer is gone. One that takes no task for the moment is tried again soon.
func (e *Engine) goesToBundle(to wire.Peer, u unplacedTask) bool {
	c, w := &u.task.Future, u.task
	if to != nil {
		x, p := e.peer(to)
		if p == nil || p.gone.Load() {
			return false
		}
		if !x.sendTo(p, w) {
			x.deferUnplaced(u)
			x.retryLater()
		}
		return true
	}
	if w.stay(e) {
		return true
	}
	pushed, err := e.pushIn(c, w.spec.need)
	if err != nil {
		c.Fail(fmt.Errorf("place %s: %w", w.entry(), err))
	}
	return pushed || err != nil
}

// deferBundle keeps a task until more is known of where bundles are; false when that has come since seen.
func (e *Engine) deferBundle(u unplacedTask, seen uint64) bool {
	if u.since == 0 {
		u.since = e.now()
	}
	e.bundles.mu.Lock()
	defer e.bundles.mu.Unlock()
	if e.bundles.retries != seen {
		return false
	}
	e.unqueued.Add(1)
	e.bundles.deferred = append(e.bundles.deferred, u)
	return true
}

func (e *Engine) retryBundlesLater() {
	if e.bundles.retrying.CompareAndSwap(false, true) {
		e.cfg.Runtime.SetAlarm(&core.Alarm{At: e.cfg.Runtime.Now() + int64(bundlePause), Ring: func() {
			e.bundles.retrying.Store(false)
			e.RetryBundles()
		}})
	}
}

// RetryBundles is called when more is known of where bundles are. It does not block.
func (e *Engine) RetryBundles() {
	e.bundles.mu.Lock()
	e.bundles.retries++
	waits := len(e.bundles.deferred) > 0
	e.bundles.mu.Unlock()
	if waits {
		e.cfg.Pool.Go(goroutines.Func(e.retryBundles))
	}
}

func (e *Engine) retryBundles() {
	for _, w := range e.takeDeferredBundles() {
		if w.task.Future.Pending() {
			e.placeInBundle(w)
		}
	}
	e.checkDrained()
}

// roamsOn places a task again that was given back since a bundle of another node has room, or since there is none in which it was to be. The
// node that gave it back takes no other for a pause, so that it does not go to and fro.
func (x *exchange) roamsOn(u unplacedTask) {
	e := x.e
	e.unqueued.Add(1)
	e.cfg.Pool.Go(goroutines.Func(func() {
		e.unqueued.Add(-1)
		if u.task.Future.Pending() {
			e.placeInBundle(u)
		}
		e.checkDrained()
	}))
}

// takeDeferredBundles takes the tasks that wait for a bundle.
func (e *Engine) takeDeferredBundles() []unplacedTask {
	e.bundles.mu.Lock()
	defer e.bundles.mu.Unlock()
	list := e.bundles.deferred
	e.bundles.deferred = nil
	e.unqueued.Add(-int64(len(list)))
	return list
}

// capturedBy is the bundle of what the turn submits without a group of its own; nil for none.
func capturedBy(t *core.Turn) *core.Bundle {
	if s := t.Slot(); s != nil {
		return s.Within
	}
	return nil
}

// within is s in a bundle, unless s is in one, or has conditions for its node.
func (s *spec) within(b *core.Bundle) *spec {
	if s.need.Bundle.Group != "" || s.opts.Conditional() {
		return s
	}
	in := *s
	in.opts.Bundle, in.need.Bundle, in.plain = *b, *b, false
	return &in
}

// Evict implements ledger.Evictable. A task that waits in a bundle which was moved goes there, and one for which another node has
// room goes there too: one of another node by that node, which placed it. One whose devices are sick is placed again; it fails where it has nowhere to go. One that runs
// goes on to its end.
func (w shaped) Evict(cause error, begun bool) {
	e := w.engine()
	if !begun {
		e.shaped.Add(-1)
	}
	switch {
	case cause != nil:
		w.Cancel(cause)
		return
	case begun:
		return
	}
	switch t := w.Work().(type) {
	case *inboundTask:
		x := e.exchange()
		x.giveBack(t)
		x.flush()
	case *record:
		switch n := t.spec.need; {
		case n.Bundle.Group != "":
			e.placeInBundle(unplacedTask{task: t})
		case e.cfg.Place != nil:
			e.exchange().place(t)
		default:
			if sick := e.line.Unwell(n); sick != nil {
				w.Fail(fmt.Errorf("place %s: %w: %w", t.entry(), raysys.ErrNoCapacity, sick))
			} else { // they are well again
				e.pushShaped(w.Future, n)
			}
		}
	}
}
