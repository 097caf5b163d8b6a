package grainengine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
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

// Self is grains.Self.
func Self(ctx context.Context) (graindir.ID, bool) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return graindir.ID{}, false
	}
	if a, ok := t.Attached().(*activation); ok && t.Kind() == core.TurnGrain {
		return graindir.ID{Kind: a.kind.def.name, Key: a.key}, true
	}
	return graindir.ID{}, false
}

// Deactivate is grains.Deactivate.
func Deactivate(ctx context.Context) error {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return err
	}
	a, ok := t.Attached().(*activation)
	if !ok {
		return fmt.Errorf("deactivate: %w: the context is not that of a grain's method", raysys.ErrNoRuntime)
	}
	a.post(&mail{msg: passivate{force: true}})
	return nil
}

// Unloader is a Runtime that has a grain leave memory, on whatever node it is.
type Unloader interface {
	Unload(ctx context.Context, id graindir.ID) error
}

// Unload is grains.Unload.
func Unload(ctx context.Context, id graindir.ID) error {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return err
	}
	entry := t.Job().Table.Lookup("grain", id.Kind)
	switch self, _ := Self(ctx); {
	case entry == nil:
		return fmt.Errorf("unload %s/%s: %w: this program defines no such kind", id.Kind, shown(id.Key), raysys.ErrUnknownFunc)
	case entry.Impl.(*kind).Stateless:
		return fmt.Errorf("unload %s/%s: %w: a StatelessWorker has a pool on each node, and no place that it leaves", id.Kind, shown(id.Key), raysys.ErrBadOption)
	case self == id:
		return fmt.Errorf("unload %s/%s: %w: its own turn waits for this; call grains.Deactivate", id.Kind, shown(id.Key), raysys.ErrBadOption)
	}
	t.Job().Runtime.Block(t.Base())
	defer t.Job().Runtime.Unblock(t.Base())
	return t.Job().Runtime.(Unloader).Unload(ctx, id)
}

// parting is the end of an activation that somebody waits for.
type parting struct {
	once sync.Once
	over chan struct{} // closed when its placement is gone, too
}

// end is called for a nil parting, too.
func (p *parting) end() {
	if p != nil {
		p.once.Do(func() { close(p.over) })
	}
}

// UnloadHere has a grain leave this node, as Deactivate does, with its placement: calls that wait find it anew. It returns when that is done,
// and false where the grain is not here.
func UnloadHere(ctx context.Context, e *Engine, id graindir.ID) (was bool, err error) {
	var p *parting
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.name == id.Kind && !k.def.Stateless {
			p = part(k, id.Key)
		}
		return p == nil
	})
	if p == nil {
		return false, nil
	}
	select {
	case <-p.over:
		return true, nil
	case <-ctx.Done():
		return true, fmt.Errorf("unload %s/%s: its turns have not ended: %w", id.Kind, shown(id.Key), context.Cause(ctx))
	}
}

// part asks an activation to leave; nil where there is none, nor one on its way out.
func part(k *boundKind, key string) *parting {
	s := k.stripeOf(key)
	s.Lock() // close looks for a parting with it
	defer s.Unlock()
	a := s.activations[key]
	if a == nil {
		if r := s.routes[key]; r != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.parting
		}
		return nil
	}
	if a.parting.CompareAndSwap(nil, &parting{over: make(chan struct{})}) {
		a.post(&mail{msg: passivate{force: true}})
	}
	return a.parting.Load()
}
