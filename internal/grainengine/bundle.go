package grainengine

import (
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
)

// A grain in a placement group holds what its kind asks for out of a bundle. The call that has it activated names the bundle; the
// grain's record has it from then on, until the grain is deactivated.
//
//	call ──► route: Config.Bundle says where ──► Locate ──► activation: enter ──► ledger.Line.PushIn ──► Grant
//	              ▲          └─► not yet: again                     │ the bundle is on another node, now or later
//	              └──────────────────────── Release ◄───────────────┘
//
// One that may be in any bundle of its group, and waits, goes in the same way to another node where a bundle has room for it (Leaves).
//
// When the group is removed its activations go: turns are cancelled, calls that wait and name the group fail with
// raysys.ErrGroupRemoved, and others go on to an activation outside.

// bundlePause is how long calls wait whose bundle has no node yet, before that is looked up again. To look asks no other node.
const bundlePause = 20 * time.Millisecond

// withoutBundle sees to a route that was to put its grain into a bundle, and could not; false where that has another reason. While
// the bundle has no node the calls wait. Where it never has one those fail that name it, and the rest goes on without it. Where its devices are
// sick those wait that wait for resources, and the rest with them.
func (r *route) withoutBundle(err error) bool {
	e := r.kind.engine
	again := false // some wait for devices that are sick
	waits, never := errors.Is(err, raysys.ErrOverloaded), errors.Is(err, raysys.ErrGroupRemoved) || errors.Is(err, raysys.ErrBadOption) || errors.Is(err, raysys.ErrNoCapacity)
	r.mu.Lock()
	in := r.bundle
	if in.Group == "" || r.state != routeAsking || e.closed.Load() || !waits && !never {
		r.mu.Unlock()
		return false
	}
	r.sweepLocked()
	sick := never && errors.Is(err, raysys.ErrDeviceSick)
	var kept, failed []pendingCall
	for _, p := range r.queue {
		o, own := p.(*outboundCall)
		waiting := own && sick && o.call.bundle() == in && r.kind.waitsFor(o.call) && !o.late(e.cfg.Now())
		if own && !waiting && (never && o.call.bundle() == in || waits && o.late(e.cfg.Now())) {
			failed = append(failed, p)
		} else {
			kept = append(kept, p)
		}
		again = again || waiting
	}
	r.queue, r.tries = kept, 0
	if never && !again {
		r.bundle = core.Bundle{}
	}
	r.mu.Unlock()
	if waits {
		err = fmt.Errorf("%w: %w", raysys.ErrDeadline, err)
	}
	for _, p := range failed {
		p.fail(fmt.Errorf("find grain %s: %w", shown(r.id().String()), err))
	}
	switch {
	case r.removeIdle():
		r.awaitsNoMore()
	case waits:
		r.awaits()
		r.after(bundlePause, r.inquire)
	case again: // to look asks the leader of the shard
		r.awaits()
		r.after(nodePause, r.inquire)
	default:
		r.awaitsNoMore()
		r.inquire()
	}
	return true
}

// need is what the activation asks for, of the node or of its bundle.
func (h *holding) need() ledger.Need {
	n := h.a.kind.def.Need
	n.Bundle = h.takenFrom()
	return n
}

// takenFrom is the bundle that the activation is in; zero for none.
func (h *holding) takenFrom() core.Bundle {
	if h == nil {
		return core.Bundle{}
	}
	return h.bundle
}

// enter has the activation take what its kind asks for from its bundle, or wait there. While this node has the bundle by its record,
// and not yet by its ledger, the activation waits for that; without a cluster also while the bundle has no node. Then it stays, as
// work in a line does, when all its calls have passed their deadlines.
func (h *holding) enter() {
	e := h.a.kind.engine
	need := h.need()
	if h.Over() {
		h.Grant(nil)
		return
	}
	pushed, never := e.cfg.Line.PushIn(need, h)
	if pushed {
		e.dropWaiting() // Close and Drain look at the line after they set what Over reads
		return
	}
	at, err := e.cfg.Bundle(graindir.ID{}, h.bundle, h.a.kind.def.Needs)
	own := e.cfg.Cluster == nil || err == nil && at == e.cfg.Cluster.Self()
	if err == nil && own && !never.Empty() {
		err = fmt.Errorf("%w: it asks for more than its bundle has (%w)", raysys.ErrNoCapacity, never.Err())
	}
	switch {
	case err != nil && !errors.Is(err, raysys.ErrOverloaded):
		h.evicted.Store(&err)
	case own:
		e.entering.Store(h.a, nil)
		rt := e.cfg.Hooks.Runtime()
		h.alarm.At, h.alarm.Ring = rt.Now()+int64(bundlePause), h.enterAgain
		rt.SetAlarm(&h.alarm)
		return
	default:
		h.moved.Store(true)
	}
	h.Grant(nil)
}

func (h *holding) enterAgain() {
	if _, waits := h.a.kind.engine.entering.LoadAndDelete(h.a); waits {
		h.a.kind.engine.cfg.Pool.Go(goroutines.Func(h.enter))
	}
}

// dropEntering has the activations that wait for their bundle, and need not any more, go on without.
func (e *Engine) dropEntering() {
	e.entering.Range(func(k, _ any) bool {
		if a := k.(*activation); a.holding.Over() {
			if _, waits := e.entering.LoadAndDelete(a); waits {
				a.holding.Grant(nil)
			}
		}
		return true
	})
}

// Evict implements ledger.Evictable: the group was removed, or the bundle was moved, or the devices are sick.
func (h *holding) Evict(cause error, begun bool) {
	if e := h.a.kind.engine; cause == nil && e.cfg.Cluster == nil && !begun {
		sick := e.cfg.Line.Unwell(h.need())
		if sick == nil { // they are well again
			h.a.spawn()
			return
		}
		cause = fmt.Errorf("%w: %w", raysys.ErrNoCapacity, sick)
	}
	if cause != nil {
		h.evicted.Store(&cause)
	} else {
		h.moved.Store(true)
	}
	if !begun {
		h.Grant(nil)
		return
	}
	if cause != nil {
		if t := h.a.hook.Load(); t != nil {
			t.Cancel(cause)
		}
		for _, c := range h.a.callsInTurn() {
			c.Cancel(cause)
		}
	}
	h.a.post(&mail{msg: passivate{force: true}})
}

// evictedBy is why the activation goes and its calls fail, nil while they do not.
func (h *holding) evictedBy() error {
	if h == nil {
		return nil
	}
	if cause := h.evicted.Load(); cause != nil {
		return *cause
	}
	return nil
}

// refusesEvicted reports whether a call does not run since the activation was evicted, and puts it aside; inner says that it is in the
// mailbox still. Evict cancels what it finds in its turn; so a call is entered there before this looks.
func (h *holding) refusesEvicted(c *call, inner bool) bool {
	if h.evictedBy() == nil {
		return false
	}
	if !inner && !c.method.tick {
		h.unserved = append(h.unserved, c)
	}
	return true
}

// orphans splits the calls that an activation leaves which was evicted: those that name its group end with it. On a node of a cluster
// the routes find that out, also for calls of other nodes.
func (h *holding) orphans(calls []*call) (ended, others []*call) {
	if h.evictedBy() == nil || h.a.kind.engine.cfg.Cluster != nil {
		return nil, calls
	}
	sick := errors.Is(h.evictedBy(), raysys.ErrDeviceSick)
	for _, c := range calls {
		if c.bundle().Group == h.bundle.Group && !(sick && h.a.kind.waitsFor(c)) {
			ended = append(ended, c)
		} else {
			others = append(others, c)
		}
	}
	return ended, others
}

// followsBundle reports whether the grain is to follow its bundle to another node.
func (h *holding) followsBundle() bool { return h != nil && h.moved.Load() }

// callsInTurn are those in their turn.
func (in *turns) callsInTurn() (list []*core.Future) {
	if c := in.current.Load(); c != nil {
		list = append(list, c)
	}
	if g := in.gate.Load(); g != nil {
		g.mu.Lock()
		for _, p := range g.inner {
			list = append(list, p.call)
		}
		g.mu.Unlock()
	}
	return list
}
