package grainengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	token, wanted, to := r.avoid.Token, r.parting != nil, core.NodeKey{}
	if r.parting.moves() {
		wanted, to = false, r.parting.move.to
	}
	r.mu.Unlock()
	if wanted && r.kind.def.Always {
		e.cfg.Cluster.End(r.id(), token, func(err error) { r.released(graindir.Place{}, err) })
		return
	}
	e.cfg.Cluster.Release(r.id(), token, to, r.released)
}

// released is called when the grain is placed here no more, and maybe on another node, at left.
func (r *route) released(left graindir.Place, err error) {
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
	moved := !left.IsZero()
	if r.moves && !moved {
		left.Token = r.avoid.Token
	}
	r.moves = false
	parting := r.parting
	r.parting = nil
	r.mu.Unlock()
	defer parting.end()
	r.turnAway(left)
	switch {
	case e.closed.Load():
		r.end(raysys.ErrClosed)
		return
	case moved: // the route stays for those that take the grain to be here: they hear where it is
		if parting != nil && parting.move != nil {
			parting.move.moved(left)
		}
		r.mu.Lock()
		r.state, r.ask, r.tries = routeAsking, graindir.Token{}, 0
		r.mu.Unlock()
		reach(r, left)
		if r.kind.def.stands() {
			Call(core.HookContext(e.waker()), r.kind.def.wake, r.id(), none{})
		}
		return
	case r.removeIdle():
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
	if a.kind.def.Always || a.kind.def.stands() {
		wantEnd(a) // it is wanted, so nobody wakes the grain
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

// parting is the end of an activation that somebody waits for, or that the grain, which is always on, wants.
type parting struct {
	once sync.Once
	over chan struct{} // closed when its placement is gone, too
	move *move         // nil: the grain leaves memory
	ends atomic.Bool   // it leaves memory, though it was about to move
}

// moves is called for a nil parting, too.
func (p *parting) moves() bool { return p != nil && p.move != nil && !p.ends.Load() }

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
			if r.parting != nil {
				r.parting.ends.Store(true)
			}
			return r.parting
		}
		return nil
	}
	if wantEnd(a) {
		a.post(&mail{msg: passivate{force: true}})
	}
	return a.parting.Load()
}

// idleFrom is how many ticks of the idle clock an activation was not used that goes for want of memory, when it takes
// fields along that are stored nowhere: a sixteenth of its idle time and a part of another.
const idleFrom = 2

// UnloadIdle has a share of the engine's grains go, for want of memory: the longest idle first. stays counts those that
// may not go, by kind and by why.
func UnloadIdle(e *Engine, share float64) (gone int, stays map[string]map[string]int) {
	type idle struct {
		a    *activation
		used uint32
		idle time.Duration
	}
	var list []idle
	all, stays := 0, map[string]map[string]int{}
	e.kinds.Range(func(_, v any) bool {
		k := v.(*boundKind)
		now := k.ticks.Load()
		for _, a := range k.activations() {
			all++
			used := a.used.Load()
			why := whyStays(a)
			if why == "" && !k.def.Durable && !k.def.Movable && now-used < idleFrom {
				why = "used within " + (k.def.Idle / ticksPerIdle).String()
			}
			if k.def.Durable && now-used < ticksPerIdle/2 && a.used.CompareAndSwap(used, used-1) {
				used-- // so that the next round knows those that were called since, also where a tick takes an hour
			}
			if why == "" {
				list = append(list, idle{a, used, time.Duration(now-used) * (k.def.Idle / ticksPerIdle)})
				continue
			}
			if stays[k.def.name] == nil {
				stays[k.def.name] = map[string]int{}
			}
			stays[k.def.name][why]++
		}
		return true
	})
	slices.SortFunc(list, func(a, b idle) int { return cmp.Compare(b.idle, a.idle) })
	for _, i := range list[:min(len(list), int(share*float64(all))+1)] {
		e.unloaded.went(i.a)
		i.a.post(&mail{msg: passivate{ticks: i.used}})
		gone++
	}
	return gone, stays
}

// whyStays says why the activation does not go for want of memory; "" where it may.
func whyStays(a *activation) string {
	switch k := a.kind; {
	case k.def.Keep:
		return "kept active"
	case a.holding != nil:
		return "with resources"
	case a.pool != nil:
		return "of no state"
	case a.timers.Load().any():
		return "with timers"
	case a.laters.Load().keptCalls() > 0:
		return "with kept calls"
	case messagesLeft(a) > 0:
		return "with messages"
	case a.busy.Load() || a.inner.Load() > 0:
		return "in a turn"
	}
	return ""
}

// unloadedGrains remembers which grains went for want of memory within about the last minute, and what is refused for
// it.
type unloadedGrains struct {
	full    atomic.Pointer[error] // for calls of grains that are not active; nil while there is room
	refused atomic.Uint64         // such calls
	some    atomic.Bool           // left has any

	mu    sync.Mutex             // guards the rest
	begun int64                  // this half of a minute, on the runtime's clock
	left  [2]map[*boundKind]keys // those of this half of a minute and of the one before
	gone  [2]int
	again [2]int
}

type keys map[string]struct{}

const halfMinute = int64(30 * time.Second)

// went enters an activation that is to go.
func (s *unloadedGrains) went(a *activation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turnLocked(a.kind.engine.cfg.Now())
	if s.left[0] == nil {
		s.left[0] = map[*boundKind]keys{}
	}
	if s.left[0][a.kind] == nil {
		s.left[0][a.kind] = keys{}
	}
	s.left[0][a.kind][a.key] = struct{}{}
	s.gone[0]++
	s.some.Store(true)
}

func (s *unloadedGrains) turnLocked(now int64) {
	if halves := (now - s.begun) / halfMinute; halves > 0 {
		s.left[1], s.gone[1], s.again[1] = s.left[0], s.gone[0], s.again[0]
		s.left[0], s.gone[0], s.again[0] = nil, 0, 0
		if halves > 1 {
			s.left[1], s.gone[1], s.again[1] = nil, 0, 0
		}
		s.begun = now
	}
	s.some.Store(s.gone[0]+s.gone[1] > 0)
}

// back notes that a grain is activated here.
func (s *unloadedGrains) back(k *boundKind, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.left {
		if _, went := s.left[i][k][key]; went {
			delete(s.left[i][k], key)
			s.again[i]++
		}
	}
}

// Wanted says how many grains went for want of memory within about the last minute, and how many of them were called
// here again.
func Wanted(e *Engine) (again, gone int) {
	s := &e.unloaded
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turnLocked(e.cfg.Now())
	return s.again[0] + s.again[1], s.gone[0] + s.gone[1]
}

// Refuse has the engine activate no grain: calls of one that is not active fail with err, or find it on another node.
// nil ends that.
func Refuse(e *Engine, err error) {
	if err == nil {
		e.unloaded.full.Store(nil)
		return
	}
	e.unloaded.full.Store(&err)
}

// Refused counts the grains that were not activated for want of memory.
func Refused(e *Engine) uint64 { return e.unloaded.refused.Load() }

// fullNow says why no grain is activated here; nil where one is.
func fullNow(e *Engine) error {
	if err := e.unloaded.full.Load(); err != nil {
		e.unloaded.refused.Add(1)
		return *err
	}
	return nil
}
