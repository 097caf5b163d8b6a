package taskengine

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// Most tasks ask for one CPU and go through the lock-free queue. The others wait in the node's ledger.Line.

// maxZeroCPU bounds the tasks that run without asking for a CPU, which the count of CPUs does not bound. Tasks that
// wait in Get do not count, or a deep chain of them would stop for ever.
const maxZeroCPU = 10_000

// shaped is a task that asks for other than one CPU, as ledger.Work.
type shaped struct {
	*core.Future
	bound bool // it cannot travel
}

func (w shaped) engine() *Engine { return engineOf(w.Up()) }

// Job implements ledger.Work.
func (w shaped) Job() *core.Job { return w.Up().Job() }

// Over implements ledger.Work.
func (w shaped) Over() bool {
	if t := w.OwnTurn(); t != nil {
		return w.Settled() || t.Cancelled() != nil
	}
	return w.Settled() || w.Up().Cancelled() != nil
}

// Begins implements ledger.Work.
func (w shaped) Begins(n *ledger.Need) bool {
	if n.CPU != 0 {
		return true
	}
	e := w.engine()
	if e.zeroCPU.Load() >= maxZeroCPU {
		return false
	}
	e.zeroCPU.Add(1)
	return true
}

// Grant implements ledger.Work. The worker drops a task that is over.
func (w shaped) Grant(h *ledger.Hold) {
	w.engine().shaped.Add(-1)
	w.engine().start(job{future: w.Future, hold: h})
}

// Leaves implements ledger.Mover. A task that was given to this node with its values stays, and so does one whose strategy looks at
// other things than room.
func (w shaped) Leaves() bool {
	e, t := w.engine(), taskOf(w.Future)
	r := t.request()
	if e.cfg.Place == nil {
		return t.spec.need.Bundle.Group == "" && !e.line.Could(t.spec.need) && !e.waitsForResources(r.Options)
	}
	if w.bound || t.stays() {
		return false
	}
	if t.spec.need.Bundle.Group != "" {
		return e.cfg.RoomInGroup(t.spec.need, isInbound(w))
	}
	if !e.line.Could(t.spec.need) {
		return true
	}
	return e.roomElsewhere(t, isInbound(w))
}

// roomElsewhere reports whether another node has room now for a task that waits here.
func (e *Engine) roomElsewhere(t *record, inbound bool) bool {
	r := t.request()
	r.Move = true
	if inbound {
		r.Needs = new(t.spec.need.Resources())
	}
	to, err := e.cfg.Place(r)
	return err == nil && to != nil
}

// Alike implements ledger.Mover: tasks of one handle go to the same nodes, but for those that stay. Of a task of another node only its
// function and its labels are known.
func (w shaped) Alike() any {
	t := taskOf(w.Future)
	a := alike{of: t.request().Options, stays: w.bound || t.stays()}
	if isInbound(w) {
		a.of, a.in, a.labels = t.entry(), t.spec.need.Bundle, string(taskwire.AppendLabels(nil, t.request().Options.Labels))
	}
	return a
}

type alike struct {
	of    any // the options of the handle, or the function
	in    core.Bundle
	stays bool

	labels string
}

// fits reports whether the node as a whole could ever run a task.
func (e *Engine) fits(n ledger.Need) error {
	if n.Bundle.Group != "" {
		return nil // that is for the bundle to say
	}
	s := e.line.Ever(n)
	if s.Empty() {
		return nil
	}
	return fmt.Errorf("%w: the task asks for more than any node has (%w): ask for less, or raise system.Config.Resources",
		raysys.ErrNoCapacity, s.Err())
}

// pushShaped queues a task that asks for other than one CPU.
func (e *Engine) pushShaped(c *core.Future, n ledger.Need) {
	e.shaped.Add(1)
	e.line.Push(n, shaped{Future: c})
	e.leaveSick(&n)
}

// leaveSick is called when work was queued, maybe by Line.Move. On a node without others nothing else has it end that asks for sick devices.
func (e *Engine) leaveSick(n *ledger.Need) {
	if e.cfg.Place == nil && n.GPU > 0 && e.line.Ill() {
		e.cfg.Pool.Go(goroutines.Func(e.line.Move))
	}
}

// pushBound is pushShaped for a task that cannot travel.
func (e *Engine) pushBound(c *core.Future, n ledger.Need) {
	e.shaped.Add(1)
	e.line.Push(n, shaped{c, true})
}

// pushIn is pushShaped for a task that draws from a bundle, if n names one; false when no such bundle is here.
func (e *Engine) pushIn(c *core.Future, n ledger.Need) (bool, error) {
	e.shaped.Add(1)
	pushed, never := e.line.PushIn(n, shaped{Future: c})
	if pushed {
		e.leaveSick(&n)
		return true, nil
	}
	e.shaped.Add(-1)
	if never.Empty() {
		return false, nil
	}
	return false, fmt.Errorf("%w: the task asks for more than its bundle has (%w)", raysys.ErrNoCapacity, never.Err())
}

// droppedShaped is called when a waiting shaped task was cancelled: CPUs may have been reserved for it.
func (e *Engine) droppedShaped(n ledger.Need) {
	e.line.Dropped(n)
	e.freed()
}

// freed is called when resources have become free.
func (e *Engine) freed() {
	if e.waits() {
		e.wake()
	} else if x := e.net.Load(); x != nil && x.owed.some.Load() {
		x.owed.tell(0)
	}
}

// endShaped frees what a shaped task held.
func (e *Engine) endShaped(j *job, s *core.CPUSlot) {
	h := j.hold
	if h == nil {
		return
	}
	if x := e.net.Load(); x != nil && j.ran {
		x.means.learnShaped(j.future, h, s, e.now())
	}
	if h.Need().CPU == 0 {
		e.zeroCPU.Add(-1)
	}
	e.line.Return(h)
}

func isTask(w ledger.Work) bool {
	_, ok := w.(shaped)
	return ok
}

func isInbound(w ledger.Work) bool {
	t, ok := w.(shaped)
	if ok {
		_, ok = t.Work().(*inboundTask)
	}
	return ok
}

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

// Demand is tasks of one shape for which no node is free, or none is there.
type Demand struct {
	Resources core.Resources
	Labels    map[string]string
	Group     string // the placement group whose bundle has no node yet; "" for tasks outside of groups
	Count     int
	Oldest    int64 // when the oldest began to wait, on the runtime's clock
}

// Unplaced is the tasks of this node that no node could take when it was last tried.
func (e *Engine) Unplaced() []Demand {
	var s unplacedShapes
	e.bundles.mu.Lock()
	s.add(e.bundles.deferred)
	e.bundles.mu.Unlock()
	if x := e.net.Load(); x != nil {
		d := &x.deferred
		d.mu.Lock()
		s.add(d.unplaced)
		d.mu.Unlock()
	}
	return s.list
}

// unplacedShapes counts tasks by shape.
type unplacedShapes struct {
	list []Demand
	at   map[string]int
	of   map[*core.Options]string // most tasks are of a few handles
}

func (s *unplacedShapes) add(tasks []unplacedTask) {
	if s.at == nil {
		s.at, s.of = map[string]int{}, map[*core.Options]string{}
	}
	for _, w := range tasks {
		if !w.task.Future.Pending() {
			continue
		}
		o := w.task.request().Options
		shape, known := s.of[o]
		if !known {
			shape = fmt.Sprintf("%#v %v %s", o.Resources, o.Labels, o.Bundle.Group)
			s.of[o] = shape
		}
		i, ok := s.at[shape]
		if !ok {
			i = len(s.list)
			s.at[shape] = i
			s.list = append(s.list, Demand{Resources: o.Resources, Labels: maps.Clone(o.Labels), Group: o.Bundle.Group, Oldest: w.since})
		}
		s.list[i].Count++
		s.list[i].Oldest = min(s.list[i].Oldest, w.since)
	}
}
