package grainengine

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// The call that has a grain activated may have conditions for its node, as it may have a bundle. This node finds out which nodes they
// mean, by Config.Conditions, and the leader of the grain's shard places it by their names. A grain that is active stays where it is.

// resolves fills in the nodes that the conditions mean. False: they are not known yet, and the route asks again later; or they never
// will be.
func (r *route) resolves(want *graindir.Wanted) bool {
	e := r.kind.engine
	r.mu.Lock()
	if r.since == 0 {
		r.since = e.cfg.Now()
	}
	since := r.since
	r.mu.Unlock()
	nodes, known, err := e.cfg.Conditions(want.Conditions, core.GrainName(r.id()), since, r.askAgain)
	switch {
	case err != nil:
		r.found(graindir.Placed{}, err)
	case known:
		want.Nodes = nodes
		r.mu.Lock()
		r.nodes = nodes
		r.mu.Unlock()
		return true
	}
	return false
}

// askAgain goes on with the calls that are not over.
func (r *route) askAgain() {
	e := r.kind.engine
	r.mu.Lock()
	if r.state != routeAsking {
		r.mu.Unlock()
		return
	}
	var late []pendingCall
	kept := r.queue[:0]
	for _, p := range r.queue {
		if o, own := p.(*outboundCall); own && o.late(e.cfg.Now()) {
			late = append(late, p)
		} else {
			kept = append(kept, p)
		}
	}
	clear(r.queue[len(kept):])
	r.queue = kept
	r.mu.Unlock()
	for _, p := range late {
		p.fail(fmt.Errorf("find grain %s: %w: it is not known yet where the conditions of its call have it", shown(r.id().String()), raysys.ErrDeadline))
	}
	if !r.removeIdle() {
		r.inquire()
	}
}

// resolved is called when the grain is located.
func (r *route) resolved() {
	r.mu.Lock()
	r.since = 0
	r.mu.Unlock()
}

// withoutNode fails the calls with conditions when no node meets them, and goes on with the others; false where that is not why, or no
// other is left, or some wait for a node.
func (r *route) withoutNode(err error) bool {
	e := r.kind.engine
	if raysys.Retriable(err) || errors.Is(err, raysys.ErrClosed) {
		return false
	}
	r.mu.Lock()
	r.sweepLocked()
	var kept, failed []pendingCall
	for _, p := range r.queue {
		o, own := p.(*outboundCall)
		switch {
		case !own || len(o.call.conditions()) == 0:
			kept = append(kept, p)
		case errors.Is(err, raysys.ErrNoCapacity) && r.kind.waitsFor(o.call):
			r.mu.Unlock()
			return false // see awaitNode
		default:
			failed = append(failed, p)
		}
	}
	if failed == nil || kept == nil || r.state != routeAsking || e.closed.Load() {
		r.mu.Unlock()
		return false
	}
	r.queue, r.tries, r.since = kept, 0, 0
	r.mu.Unlock()
	for _, p := range failed {
		p.fail(fmt.Errorf("find grain %s: %w", shown(r.id().String()), err))
	}
	r.inquire()
	return true
}
