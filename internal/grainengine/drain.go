package grainengine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
)

// releasePause is how long after a failed Release the next one comes.
const releasePause = 50 * time.Millisecond

// Drain deactivates every named grain of this node and removes the placements, so that the grains go to other nodes:
// turns end, OnDeactivate runs, and calls that wait follow their grain. Calls from here go on as before. It returns
// when that is done, or says at the end of ctx how much is left. The cluster must have stopped placing grains here. In
// a single process there is nowhere to go, and Drain does nothing.
func (e *Engine) Drain(ctx context.Context) error {
	if e.cfg.Cluster == nil {
		return nil
	}
	e.draining.Store(true)
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); !k.def.Stateless {
			for _, a := range k.activations() {
				a.laters.Load().abandonCalls("its node drains")
				a.post(&mail{msg: passivate{force: true}})
			}
		}
		return true
	})
	e.dropWaiting()
	for {
		left := e.releasing.Load()
		e.kinds.Range(func(_, v any) bool {
			if k := v.(*boundKind); !k.def.Stateless {
				left += k.live.Load()
			}
			return true
		})
		if left == 0 {
			return nil
		}
		select {
		case <-e.drained:
		case <-ctx.Done():
			return fmt.Errorf("drain: %d grains are still here%s: %w", left, named(e.Busy(maxNamed)), context.Cause(ctx))
		}
	}
}

// CancelDrain makes a node that drains take grains again. Grains that are about to leave still leave.
func (e *Engine) CancelDrain() { e.draining.Store(false) }

// maxNamed bounds the grains that an error names.
const maxNamed = 10

// named shows names behind a count.
func named(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

// Busy names up to limit grains of this node that are in a turn, and how many more there are.
func (e *Engine) Busy(limit int) (names []string) {
	more := 0
	e.kinds.Range(func(_, v any) bool {
		for _, a := range v.(*boundKind).activations() {
			turn := ""
			if t := a.hook.Load(); t != nil {
				turn = t.Name()
			} else if c := a.current.Load(); c != nil {
				turn = c.Work().Name()
			}
			switch {
			case turn == "":
			case len(names) < limit:
				names = append(names, "grain "+turn)
			default:
				more++
			}
		}
		return true
	})
	if more > 0 {
		names = append(names, fmt.Sprintf("%d grains more", more))
	}
	return names
}

func (e *Engine) pokeDrain() {
	if e.draining.Load() {
		select {
		case e.drained <- struct{}{}:
		default:
		}
	}
}

// routeLocked replaces a by a route, in which its calls wait. The caller has locked the stripe.
func (a *activation) routeLocked(s *stripe, calls []*call) *route {
	k := a.kind
	r := &route{kind: k, key: a.key, bundle: a.holding.takenFrom(), state: routeReleasing, avoid: graindir.Place{NodeKey: k.engine.cfg.Cluster.Self(), Token: a.tenure.token}, moves: a.holding.followsBundle(), parting: a.parting.Load()}
	if a.tenure.stale.Load() {
		r.state = routeAsking
	}
	for _, c := range calls {
		if c.Future.Settled() {
			continue
		}
		if v := c.inbound(); v != nil {
			r.queue = append(r.queue, v)
		} else {
			r.queue = append(r.queue, k.outboundOf(a.key, c))
		}
	}
	s.addRoute(r)
	k.engine.releasing.Add(1)
	return r
}

// leave follows routeLocked, without a lock: it removes the placement. A stale activation has none.
func (r *route) leave(a *activation) {
	e := r.kind.engine
	if !a.tenure.stale.Load() {
		r.release()
		return
	}
	e.releasing.Add(-1)
	e.pokeDrain()
	r.mu.Lock()
	parting := r.parting
	r.parting = nil
	r.mu.Unlock()
	parting.end()
	if !r.removeIdle() {
		r.inquire()
	}
}

// release removes the placement r.avoid, which is this node's. Until that is done calls wait in the route: one that
// confirmed the token meanwhile would activate a grain whose placement is about to go (rule C19).
func (r *route) release() {
	e := r.kind.engine
	r.mu.Lock()
	token := r.avoid.Token
	r.mu.Unlock()
	e.cfg.Cluster.Release(r.id(), token, r.released)
}

func (r *route) released(err error) {
	e := r.kind.engine
	if err != nil && !errors.Is(err, raysys.ErrMoved) && !e.closed.Load() {
		r.after(releasePause, r.release)
		return
	}
	defer func() {
		e.releasing.Add(-1)
		e.pokeDrain()
	}()
	r.mu.Lock()
	var left graindir.Place
	if r.moves {
		left.Token = r.avoid.Token
	}
	r.moves = false
	parting := r.parting
	r.parting = nil
	r.mu.Unlock()
	defer parting.end()
	r.turnAway(left)
	if e.closed.Load() {
		r.end(raysys.ErrClosed)
		return
	}
	if r.removeIdle() {
		return
	}
	r.mu.Lock()
	if r.tries > maxTries {
		r.mu.Unlock()
		r.end(fmt.Errorf("the registry keeps placing it on this node, which drains: %w", raysys.ErrNotDelivered))
		return
	}
	r.state, r.ask = routeAsking, graindir.Token{}
	r.askLocked()
}

// closeRoutes fails what waits in routes and what peers have not answered; closed is set.
func (e *Engine) closeRoutes() {
	rt := e.cfg.Hooks.Runtime()
	e.kinds.Range(func(_, v any) bool {
		k := v.(*boundKind)
		for i := range k.table {
			s := &k.table[i]
			s.Lock()
			var all []*route
			for _, r := range s.routes {
				all = append(all, r)
			}
			s.Unlock()
			for _, r := range all {
				r.end(raysys.ErrClosed)
				rt.ClearAlarm(&r.alarm)
			}
		}
		return true
	})
	e.peers.Range(func(_, v any) bool {
		for _, o := range v.(*peer).sent.Drain() {
			o.fail(fmt.Errorf("%s: %w", o.name(), raysys.ErrClosed))
		}
		return true
	})
}
