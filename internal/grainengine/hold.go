package grainengine

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
)

// A kind that asks for resources has each of its activations hold them, from before OnActivate to the end of OnDeactivate.
//
//	spawn ──► ledger.Line ──► Grant ──► actor: OnActivate, turns, OnDeactivate ──► Return
//	                ├──► Grant(nil): the node closes or drains, or the grain is elsewhere: the calls go on without it
//	                └──► Evict: another node has room: the placement is removed, and the calls follow the grain as in a drain

// What the ledger and a turn ask for by assertion.
var (
	_ ledger.Mover     = (*holding)(nil)
	_ ledger.Evictable = (*holding)(nil)
	_ ledger.Keeper    = (*holding)(nil)
	_ ledger.Yielder   = (*holding)(nil)
	_ core.Holder      = (*activation)(nil)
)

// holding is what an activation of such a kind has. The methods slot, takenFrom, giveBack, denied, evictedBy, refusesEvicted, orphans and
// followsBundle take nil for an activation that holds nothing.
type holding struct {
	a *activation // whose it is

	hold  atomic.Pointer[ledger.Hold] // nil while it waits, and where it was not to be
	pulls bool                        // of a pool: it was told of calls, and has not looked; guarded by pool.mu
	asked atomic.Bool                 // to go early, since others wait for what it holds
	gives atomic.Bool                 // they wait at other nodes, or are placement groups
	calls uint64                      // mail that it had had at idle; guarded by Engine.rooms
	idle  int64                       // since when MakeRoom has seen it without a call, on the engine's clock; guarded by Engine.rooms

	bundle  core.Bundle           // what it is taken from; zero for the node
	evicted atomic.Pointer[error] // why the grain goes and its calls fail: the group was removed, or never has what the kind asks for
	moved   atomic.Bool           // the bundle is on another node, or another has room: the grain goes there, and its calls
	alarm   core.Alarm            // to enter the bundle

	unserved []*call // whose turn came after it was evicted; used by the turn only
}

// slot returns what one turn gives back while it waits, the CPU that its activation holds, with the group of what it submits; nil
// for neither.
func (h *holding) slot() *core.CPUSlot {
	if h == nil {
		return nil
	}
	got, within := h.hold.Load(), h.bundle.Children()
	if got == nil || got.Need().CPU == 0 && within == nil {
		return nil
	}
	return &core.CPUSlot{CPU: got.Need().CPU, Pool: got.Pool(), Within: within}
}

// early asks an activation that holds what others wait for to go once it is idle.
type early struct{}

// Over implements ledger.Work.
func (h *holding) Over() bool {
	e := h.a.kind.engine
	return e.closed.Load() || h.a.pool != nil && h.a.pool.waiting() <= 0 || h.a.tenure != nil && h.a.tenure.stale.Load() || e.draining.Load() && !h.a.kind.def.Stateless
}

// Begins implements ledger.Work.
func (h *holding) Begins(*ledger.Need) bool { return true }

// Class implements ledger.Work.
func (h *holding) Class() core.Class { return core.Normal }

// Job implements ledger.Work: an activation serves callers of several jobs, and outlives them.
func (h *holding) Job() *core.Job { return nil }

// Grant implements ledger.Work.
func (h *holding) Grant(got *ledger.Hold) {
	line := h.a.kind.engine.cfg.Line
	if got != nil {
		h.hold.Store(got)
		h.a.kind.engine.holders.Store(h.a, nil)
		if h.yieldsCPU(got) {
			line.Yields()
		}
	}
	h.a.start()
	if got != nil && line.Sick(got) { // since it was granted
		h.a.kind.engine.Short()
	}
}

// yieldsCPU reports whether the activation, which has got, gives back CPU of the node once it is idle and tasks wait for it.
func (h *holding) yieldsCPU(got *ledger.Hold) bool {
	return got.Need().CPU > 0 && h.Yields()
}

// Keeps implements ledger.Keeper.
func (h *holding) Keeps() bool { return h.a.kind.def.Keep }

// Yields implements ledger.Yielder.
func (h *holding) Yields() bool { return !h.a.kind.def.Keep && h.bundle.Group == "" }

// Idle implements ledger.Yielder.
func (h *holding) Idle() bool {
	return !h.a.kind.def.Keep && !h.a.busy.Load() && h.a.inner.Load() == 0 && h.a.laters.Load().keptCalls() == 0
}

// Leaves implements ledger.Mover.
func (h *holding) Leaves() bool {
	if k := h.a.kind; k.engine.cfg.Cluster == nil {
		return h.a.pool == nil && h.takenFrom().Group == "" && !k.engine.cfg.Line.Could(k.def.Need)
	}
	if h.a.tenure == nil || h.a.tenure.wanted == nil {
		return false // of a stateless kind, whose calls go (pool.move), or nowhere to go
	}
	id := graindir.ID{Kind: h.a.kind.def.name, Key: h.a.key}
	if need := h.need(); need.Roams() {
		return h.a.kind.engine.cfg.RoomInGroup(id, need)
	}
	return h.a.kind.goesElsewhere(id, *h.a.tenure.wanted)
}

// Alike implements ledger.Mover.
func (h *holding) Alike() any {
	if in := h.takenFrom(); in.Group != "" {
		return alikeIn{h.a.kind, in.Group}
	}
	if h.a.tenure != nil && h.a.tenure.wanted != nil {
		if w := h.a.tenure.wanted; w.Bound || len(w.Labels) > len(h.a.kind.def.Labels) || len(w.Nodes) > 0 {
			return h // the labels, or the conditions, are a call's
		}
	}
	return h.a.kind
}

// alikeIn is the grains of a kind in a group.
type alikeIn struct {
	kind  *boundKind
	group string
}

// giveBack is called when no code of the activation runs any more.
func (h *holding) giveBack() {
	if h == nil {
		return
	}
	if got := h.hold.Swap(nil); got != nil {
		e := h.a.kind.engine
		e.holders.Delete(h.a)
		if h.yieldsCPU(got) {
			e.cfg.Line.Yielding.Add(-1)
		}
		e.cfg.Line.Return(got)
	}
}

// denied reports whether the activation has not got what its kind asks for, which its calls are told.
func (h *holding) denied() bool {
	if h == nil || h.hold.Load() != nil {
		return false
	}
	err := error(raysys.ErrNotDelivered)
	if h.a.kind.engine.closed.Load() {
		err = raysys.ErrClosed
	}
	h.a.failed = fmt.Errorf("%s/%s: %w: it waited for %v", h.a.kind.def.name, shown(h.a.key), err, h.a.kind.def.Need)
	h.a.post(&mail{msg: passivate{force: true}})
	return true
}

// Devices implements core.Holder.
func (a *activation) Devices() []string {
	if a.holding == nil {
		return nil
	}
	return a.kind.engine.cfg.Line.Devices(a.holding.hold.Load())
}

// dropWaiting has the activations that wait, and need not any more, go on without.
func (e *Engine) dropWaiting() {
	e.dropEntering()
	if e.cfg.Line == nil || e.cfg.Line.Idle() {
		return
	}
	for _, w := range e.cfg.Line.Remove(func(w ledger.Work) bool {
		h, ok := w.(*holding)
		return ok && h.a.kind.engine == e && h.Over()
	}) {
		w.Grant(nil)
	}
}

// Short is called when work waits for resources, or a device is sick: activations that hold those go once they are idle.
func (e *Engine) Short() {
	e.holders.Range(func(k, _ any) bool {
		k.(*activation).holding.askEarly()
		return true
	})
}

// askEarly asks the activation, which has what its kind asks for, to go once it is idle, where it ought to.
func (h *holding) askEarly() {
	if !h.a.kind.def.Keep && h.oughtToGo() && h.asked.CompareAndSwap(false, true) {
		h.a.post(&mail{msg: early{}})
	}
}

// idleFor is how long an activation has had no call before it goes for work elsewhere, which looks every 100 ms.
const idleFor = 100 * time.Millisecond

// MakeRoom is called when work that needs this waits at other nodes, or a placement group does, again and again while it does.
// Activations that have been idle for idleFor go, where what they hold is what is missing here, unless their kind says Keep: for all of
// the needs or none, or else for as many as can be.
func (e *Engine) MakeRoom(needs []ledger.Need, all bool) {
	e.rooms.Lock()
	defer e.rooms.Unlock()
	now := e.cfg.Now()
	idle := map[*ledger.Hold]*activation{}
	e.holders.Range(func(k, _ any) bool {
		a := k.(*activation)
		h, calls := a.holding, a.popped.Load()
		switch hold := h.hold.Load(); {
		case hold == nil || a.kind.def.Keep:
		case a.busy.Load() || a.inner.Load() > 0 || a.laters.Load().keptCalls() > 0 || h.idle == 0 || h.calls != calls:
			h.calls, h.idle = calls, max(now, 1)
		case now-h.idle >= int64(idleFor):
			idle[hold] = a
		}
		return true
	})
	if len(idle) == 0 {
		return
	}
	for _, hold := range e.cfg.Line.Room(needs, all, slices.Collect(maps.Keys(idle))) {
		h := idle[hold].holding
		h.gives.Store(true)
		if h.asked.CompareAndSwap(false, true) {
			idle[hold].post(&mail{msg: early{}})
		}
	}
}

// oughtToGo reports whether what the activation holds would better be given back.
func (h *holding) oughtToGo() bool {
	got := h.hold.Load()
	line := h.a.kind.engine.cfg.Line.Of(got)
	return h.gives.Load() || line.Owes(got) || line.Sick(got)
}

// goesEarly reports whether the activation, which was asked to, is to go now: it ought to, and has done the calls that wait in its
// mailbox.
func (h *holding) goesEarly(ought func() bool) bool {
	h.asked.Store(false) // before it looks: what becomes short after that asks again
	switch {
	case !ought():
		return false
	case h.a.laters.Load().keptCalls() > 0: // the last of them asks again
		h.gives.Store(false)
		return false
	case h.a.pool == nil && h.a.pushed.Load()&^closedBit > h.a.popped.Load():
		h.gives.Store(false) // it is not idle, as that took it to be
		if h.asked.CompareAndSwap(false, true) {
			h.a.post(&mail{msg: early{}})
		}
		return false
	}
	return true
}

// never says why no state of this node has what the kind asks for.
func (k *boundKind) never() error {
	if !k.def.holds() {
		return nil
	}
	if s := k.engine.cfg.Line.Ever(k.def.Need); !s.Empty() {
		return fmt.Errorf("%w: grain %s asks for more than the node has (%w): ask for less by grains.Holds, or raise system.Config.Resources",
			raysys.ErrNoCapacity, k.def.name, s.Err())
	}
	return nil
}

// goesElsewhere reports whether the node refuses a grain that was placed here: it can never have it, or not while its devices are
// sick, or would have it wait while another node need not.
func (k *boundKind) goesElsewhere(id graindir.ID, w graindir.Wanted) bool {
	if !k.def.holds() {
		return false
	}
	line := k.engine.cfg.Line
	return k.unfit != nil || !line.Could(k.def.Need) || !w.Bound && !line.HasNow(k.def.Need) && !k.engine.cfg.Cluster.Elsewhere(id, w, true).IsZero()
}

// Hold is grains.Holds.
func (o *KindOptions) Hold(opts []raysys.Option) error {
	got := core.With(core.Options{}, opts)
	if got.Err != nil {
		return fmt.Errorf("option Holds: %w", got.Err)
	}
	o.Needs, o.Need, o.Waits = got.Resources, ledger.Of(got.Resources), got.Waits
	if got.Resources, got.Sized, got.Waits = (core.Resources{}), false, false; !reflect.DeepEqual(got, core.Options{}) {
		return errors.New("option Holds: give GPU, GPUMemory, GPUModel, CPU, Memory, Resource and WaitForResources; other options are for tasks and calls")
	}
	return nil
}

func (o *KindOptions) holds() bool { return !o.Need.IsCPU(0) }
