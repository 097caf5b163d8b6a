package grainengine

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
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

// askEarly asks the activation, which has what its kind asks for, to go once it is idle, where it ought to.
func (h *holding) askEarly() {
	if !h.a.kind.def.Keep && h.oughtToGo() && h.asked.CompareAndSwap(false, true) {
		h.a.post(&mail{msg: early{}})
	}
}

// idleFor is how long an activation has had no call before it goes for work elsewhere, which looks every 100 ms.
const idleFor = 100 * time.Millisecond

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
