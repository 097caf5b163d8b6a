package taskengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/runqueue"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/wire"
)

// Config is what an Engine is given. The zero value of a field takes the default it names.
type Config struct {
	// Resources of this node. CPU 0 means runtime.GOMAXPROCS(0), unless NoCPU is set.
	Resources raysys.Resources
	// Devices are the accelerators. Nil: as many as Resources.GPU says, of which no more is known.
	Devices []ledger.Device
	// Choose takes the whole devices of a task among those that are free; nil takes the first.
	Choose ledger.Choose
	// NoCPU makes CPU 0 mean none: a driver, whose tasks run on other nodes and wait while there is none.
	NoCPU bool
	// QueueTasks bounds the tasks that wait to start (default 1,000,000), QueueBytes the memory of their arguments
	// beyond the records themselves (default 256 MiB).
	QueueTasks int
	QueueBytes int64
	// Detour is what each task passes; nil for nothing.
	Detour *detour.Detour
	// Table is the function table of the system; handles of other tables are refused.
	Table *raysys.Table
	// Actors is the actor system the workers live in.
	Actors *actor.ActorSystem
	// Pool runs the workers' mailboxes.
	Pool *goroutines.Pool

	// Lineage has the node keep the recipes of its tasks' objects, to make again what is lost, in up to LineageMemory
	// bytes (default 256 MiB).
	Lineage       bool
	LineageMemory int64

	// Tally counts what runs; nil for one of the engine's own.
	Tally *tally.Tally
	// Runtime is the node's, for its clock.
	Runtime core.Runtime
	// MakeRoom is called some times a second while so many tasks of one CPU wait here, at most as many as the node has CPUs, and
	// activations hold CPU (ledger.Line.Yielding): idle ones are to give it back. Nil: tasks wait until they do.
	MakeRoom func(tasks int)

	// The rest is for nodes that have peers.

	// QueueInbound bounds the tasks of other nodes that wait here; further ones are sent back (default 65,536).
	QueueInbound int
	// Place finds a node for a task that asks for something else than one CPU: nil for this one. An error with a
	// method Temporary that returns true lets the task wait until the view changes; any other fails it. Nil: such
	// tasks stay here.
	Place func(PlaceRequest) (wire.Peer, error)
	// WaitForResources has all tasks wait that ask for more than any node has, as raysys.WaitForResources.
	WaitForResources bool
	// PlaceInBundle is Place for a task that is in a placement group.
	PlaceInBundle func(PlaceRequest) (wire.Peer, error)
	// RoomInGroup reports whether another node has a bundle with room for a task that waits here in one: false unless it may be in any.
	// away says that the node which sent the task here will send it there. Needed with Place.
	RoomInGroup func(n ledger.Need, away bool) bool
	// Node is this node: which of several idle peers it sends to follows from it.
	Node raysys.NodeID
	// Changed is called when the node begins to drain, or takes tasks again: all other nodes should soon get the
	// new Load. It must not block.
	Changed func()
	// Tell is called for a peer that should soon get the Load: one that waits for a free CPU here, or that this
	// node asks for one. It must not block. Nil: peers learn it only from results.
	Tell func(wire.Peer)
	// RestChanged is called when Load.Rest has changed. It must not block. Nil: other nodes learn it as the other loads.
	RestChanged func()
	// Bandwidth says how fast large values come to this node, in bytes per second, for its Load; 0 while that is not
	// known.
	Bandwidth func() int64
	// Memory says how near the node is to its memory limit, for its Load; nil for a node that looks after none.
	Memory func() loadreport.Memory
}

// Engine runs the tasks of one node: a first-come-first-served queue, a count of free CPUs, and workers that pull.
//
// A worker is a protoactor actor. It is idle, without a goroutine, until it gets a message to pull; it then holds one
// CPU and takes tasks until the queue is empty. Work is never assigned to a worker beforehand, so a short task does
// not wait behind a long one while a CPU is free.
type Engine struct {
	cfg       Config
	queue     *runqueue.Queue
	order     runqueue.Order
	props     *actor.Props
	maxBytes  int64
	roomUntil atomic.Uint64 // submissions may go on up to this count of Queue.Pushed; raised as tasks start
	bytes     atomic.Int64  // of queued arguments
	unqueued  atomic.Int64  // tasks that wait elsewhere than in the fifo of the queue: held, deferred, or in a lane
	closed    atomic.Bool
	linger    int // looks of a worker at the empty queue before it goes idle
	draining  atomic.Bool
	net       atomic.Pointer[exchange] // nil while there never was a peer
	lineage   *lineage                 // nil where no recipes are kept

	_         [8]byte      // what follows is written all the time, what is above is read: TestLayout
	searching atomic.Int32 // 1 while some worker looks for work, which then need not be woken
	line      ledger.Line  // what the node has, what is held of it, and the tasks that wait for other than one CPU

	waiting atomic.Int32 // root submitters that wait for room
	shaped  atomic.Int32 // tasks that wait in the line
	zeroCPU atomic.Int32 // tasks that run and ask for no CPU
	spare   atomic.Pointer[core.CPUSlot]
	slots   tally.Slots
	fetches fetches
	held    heldTasks
	bundles bundles

	yielding yielding

	mu      sync.Mutex      // guards the rest
	spares  []*core.CPUSlot // beside spare
	idle    []*worker
	live    int             // workers that are not stopped
	room    []chan struct{} // one per waiting submitter, closed when there may be room
	busy    int             // workers at work
	allIdle chan struct{}   // made by Close, and closed once busy is 0
	drained chan struct{}   // made by Drain, and closed once nothing is left
}

const (
	oneCPU = 1000
	// maxDepth bounds how many tasks run in place on one goroutine, whose stack grows with each: past it the waiting
	// task parks and a worker takes the child.
	maxDepth = 200
)

// NewEngine makes the engine of one node. It starts nothing.
func NewEngine(cfg Config) *Engine {
	if cfg.Resources.CPU == 0 && !cfg.NoCPU {
		cfg.Resources.CPU = float64(runtime.GOMAXPROCS(0))
	}
	if cfg.QueueTasks == 0 {
		cfg.QueueTasks = 1_000_000
	}
	if cfg.QueueBytes == 0 {
		cfg.QueueBytes = 256 << 20
	}
	if cfg.QueueInbound == 0 {
		cfg.QueueInbound = forwarding.MaxFlights
	}
	if cfg.Tally == nil {
		cfg.Tally = &tally.Tally{}
	}
	total := ledger.Of(core.Resources(cfg.Resources))
	if cfg.Devices == nil {
		cfg.Devices = ledger.Unnamed(total.GPU)
	}
	e := &Engine{cfg: cfg, linger: lingering(), maxBytes: cfg.QueueBytes}
	e.queue = runqueue.New(&e.order, &e.unqueued)
	if cfg.Lineage {
		e.lineage = &lineage{max: cmp.Or(cfg.LineageMemory, 256<<20)}
	}
	e.line.Init(total, cfg.Devices, ledger.Hooks{
		Queue: func() (pushed, popped uint64) { return e.queue.Pushed(), e.queue.Popped() }, Freed: e.freed, Now: e.now, Above: e.above, Choose: cfg.Choose,
		Changed: cfg.RestChanged, Later: e.later,
	})
	e.order.Init(e.now, e.line.Shares())
	e.roomUntil.Store(uint64(cfg.QueueTasks))
	e.props = actor.PropsFromProducer(func() actor.Actor { return &worker{engine: e} }, actor.WithDispatcher(dispatcher{cfg.Pool}))
	return e
}

// now is the runtime's clock; 0 for an engine without a runtime.
func (e *Engine) now() int64 {
	if e.cfg.Runtime == nil {
		return 0
	}
	return e.cfg.Runtime.Now()
}

// later is ledger.Hooks.Later.
func (e *Engine) later(at int64, f func()) {
	if e.cfg.Runtime != nil {
		e.cfg.Runtime.SetAlarm(&core.Alarm{At: at, Ring: func() { e.cfg.Pool.Go(goroutines.Func(f)) }})
	}
}

// above is ledger.Hooks.Above.
func (e *Engine) above(w ledger.Standing) (above, less bool) {
	x := e.net.Load()
	if !e.order.Mixed() && !e.queue.Others(w.Job) && (x == nil || !x.inbound.Others(w.Job)) {
		return false, false
	}
	return e.order.AboveLine(w)
}

// Line is the node's ledger, from which the other engine draws too.
func (e *Engine) Line() *ledger.Line { return &e.line }

// Resources returns what the node offers.
func (e *Engine) Resources() raysys.Resources { return e.cfg.Resources }

// Queued returns the number of queue places taken by tasks that have not started; it may count some that were
// started in place.
func (e *Engine) Queued() int {
	return e.queue.Len()
}

// FreeCPU returns the CPUs no task holds, below zero while tasks that resumed after a wait overlap others.
func (e *Engine) FreeCPU() float64 { return float64(e.line.CPU().Load()) / oneCPU }

// push queues a task that asks for one CPU and sees that a worker comes.
func (e *Engine) push(c *core.Future) {
	e.queue.Push(c)
	e.wake()
}

// wake starts a worker if a CPU is free and none is looking for work already.
func (e *Engine) wake() {
	if e.searching.Load() != 0 {
		return
	}
	if e.line.CPU().Load() < oneCPU || e.line.Waits.Load() != 0 && e.line.Reserves() {
		e.spill()
		return
	}
	if !e.searching.CompareAndSwap(0, 1) {
		return
	}
	if !e.line.TakeCPU(oneCPU) {
		e.searching.Store(0)
		// Another goroutine took the CPU after the check above. A goroutine that gives a CPU back looks at the queue
		// afterwards.
		switch {
		case e.line.CPU().Load() < oneCPU:
			e.spill()
		case e.waits():
			e.wake()
		}
		return
	}
	e.start(job{pull: true})
}

// spill is called when tasks may wait and no CPU is free.
func (e *Engine) spill() {
	if x := e.net.Load(); x != nil {
		x.taskWaits()
	}
	e.lacksCPU()
}

// waits reports whether a worker would find a task.
func (e *Engine) waits() bool {
	if !e.queue.Empty() {
		return true
	}
	x := e.net.Load()
	return x != nil && (!x.inbound.Empty() || x.deferred.count.Load() > 0)
}

// Block gives back the CPU of the task on the calling goroutine, which is about to park.
func (e *Engine) Block(t *core.Turn) {
	if s := t.Slot(); s != nil && s.Blocked.Add(1) == 1 {
		if s.CPU == 0 {
			e.zeroCPU.Add(-1)
		}
		e.passOn(s)
		s.Waited.Store(true)
		if s.NotOwn.Load() {
			x := e.net.Load()
			x.serve(s, true)
			s.Parked.Store(true)
			x.parked.Add(1)
		}
		if s.Pool != nil {
			s.Pool.GiveCPU(s.CPU)
		} else {
			e.line.GiveCPU(s.CPU)
		}
	}
	if x := e.net.Load(); x != nil {
		x.wakeIfHinted()
	}
}

// Unblock takes the CPU again at once, even if that leaves less than none: a resumed task may hold what others wait
// for (a mutex), so making it queue for a CPU could stop everything. The overlap ends as running tasks do, since
// workers stop while free is below zero.
func (e *Engine) Unblock(t *core.Turn) {
	if s := t.Slot(); s != nil && s.Blocked.Add(-1) == 0 {
		if s.CPU == 0 {
			e.zeroCPU.Add(1)
		}
		if s.Parked.Swap(false) {
			x := e.net.Load()
			x.serve(s, false)
			x.parked.Add(-1)
		}
		if s.Pool != nil {
			s.Pool.RetakeCPU(s.CPU)
		} else {
			e.line.RetakeCPU(s.CPU)
		}
	}
}

// passOn queues the rest of the Map that the goroutine of s was working through, so that other workers find it.
func (e *Engine) passOn(s *core.CPUSlot) {
	if c := s.Batch.Load(); c != nil && c.Work().(batch).hasMore() {
		e.queue.Push(c)
	}
}

// takeSlot takes a CPU, and gives a goroutine other than a worker's (a driver's, or a grain's turn) a slot to run a
// task in place; nil where no CPU is free.
func (e *Engine) takeSlot() *core.CPUSlot {
	if e.line.Waits.Load() != 0 && e.line.Reserves() || !e.line.TakeCPU(oneCPU) {
		return nil
	}
	if s := e.spare.Swap(nil); s != nil {
		return s
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if last := len(e.spares) - 1; last >= 0 {
		s := e.spares[last]
		e.spares = e.spares[:last]
		return s
	}
	s := &core.CPUSlot{CPU: oneCPU}
	e.slots.New(s, true)
	return s
}

func (e *Engine) giveSlot(s *core.CPUSlot) {
	n := tally.Of(s)
	n.Rest() // also after a task that ended the goroutine
	blocked := s.Blocked.Load() != 0
	if blocked || n.Due() {
		n.AddUp(0, 0)
	}
	if blocked {
		e.slots.Drop(n)
	} else if other := e.spare.Swap(s); other != nil {
		e.mu.Lock()
		e.spares = append(e.spares, other)
		e.mu.Unlock()
	}
	e.line.GiveCPU(oneCPU)
}

// addUpSpares counts with their functions what has run on the slots that nobody has.
func addUpSpares(e *Engine) {
	e.mu.Lock()
	slots := e.spares
	e.spares = nil
	e.mu.Unlock()
	if s := e.spare.Swap(nil); s != nil {
		slots = append(slots, s)
	}
	for _, s := range slots {
		tally.Of(s).AddUp(0, 0)
	}
	e.mu.Lock()
	e.spares = append(e.spares, slots...)
	e.mu.Unlock()
}

// hasRoom reports whether the queue takes another task.
func (e *Engine) hasRoom() bool {
	if e.bytes.Load() > e.maxBytes || e.unqueued.Load()+int64(e.shaped.Load()) >= int64(e.cfg.QueueTasks) {
		return false
	}
	pushed := e.queue.Pushed()
	if pushed < e.roomUntil.Load() {
		return true
	}
	until := e.queue.Popped() + uint64(e.cfg.QueueTasks)
	e.roomUntil.Store(until)
	return pushed < until
}

// waitRoom blocks a root submitter until the queue has room or ctx ends.
func (e *Engine) waitRoom(ctx context.Context) error {
	for {
		ch := make(chan struct{})
		e.mu.Lock()
		e.waiting.Add(1)
		e.room = append(e.room, ch)
		e.mu.Unlock()
		if e.hasRoom() || e.closed.Load() {
			e.signalRoom()
		}
		select {
		case <-ch:
		case <-ctx.Done():
			e.signalRoom() // takes this one's registration away; the others look again
			return fmt.Errorf("%w: the task queue is full (%d tasks, %d bytes of arguments) and the context ended while waiting for room: %w",
				raysys.ErrOverloaded, e.Queued(), e.bytes.Load(), context.Cause(ctx))
		}
		if e.closed.Load() {
			return raysys.ErrClosed
		}
		if e.hasRoom() {
			return nil
		}
	}
}

func (e *Engine) signalRoom() {
	e.mu.Lock()
	list := e.room
	e.room = nil
	e.waiting.Add(-int32(len(list)))
	e.mu.Unlock()
	for _, ch := range list {
		close(ch)
	}
}

// started does the accounts of a task that left the queue.
func (e *Engine) started(bytes int64) {
	if bytes != 0 {
		e.bytes.Add(-bytes)
	}
	if e.waiting.Load() != 0 {
		e.signalRoom()
	}
}

// Has reports whether the program has the task.
func (e *Engine) Has(function string) bool { return e.cfg.Table.Lookup("task", function) != nil }

// Adopt makes the task of a recording. job is as in wire.Turns.
func (e *Engine) Adopt(body []byte, with Adoption, job func(wire.JobKey) *core.Job) (a Adopted, err error) {
	plan, err := recordedPlan()
	if err != nil {
		return a, err
	}
	var t recordedTask
	if err := plan.Decode(body, reflect.ValueOf(&t).Elem(), nil); err != nil {
		return a, fmt.Errorf("the record of a task: %w", err)
	}
	entry := e.cfg.Table.Lookup("task", t.Function)
	var impl *spec
	if entry != nil {
		impl, _ = entry.Impl.(*spec)
	}
	if impl == nil {
		return a, fmt.Errorf("%w: task %s, which a recording asks for, is not in this program", raysys.ErrUnknownFunc, t.Function)
	}
	r := wire.NewReader(t.Turn)
	up, err := wire.ReadTurn(&r, job)
	if err != nil {
		return a, fmt.Errorf("the record of task %s: %w", t.Function, err)
	}
	up.Deadline = 0 // of a submitter that is dead
	if with.Early > t.Options.Retries {
		return a, &raysys.TaskError{Function: t.Function, Attempt: with.Early, Err: &worksDeath{with.Early}}
	}
	return impl.adopt(e, &t, up, with), nil
}

// Explain lists what this node submitted, and could make again, of the ids for which wanted is true. more adds to what is known of a
// value.
func (e *Engine) Explain(wanted func(id core.TaskID) bool, limit int, more func(*core.Future, *core.Explanation)) (list []core.Explanation) {
	if e.lineage == nil {
		return nil
	}
	e.lineage.mu.Lock()
	order := append(e.lineage.order[:0:0], e.lineage.order...)
	e.lineage.mu.Unlock()
	for _, w := range order {
		rec := w.Value()
		if rec == nil || !wanted(rec.id()) {
			continue
		}
		x := input{recipe: rec}.explain(core.ExplainDepth)
		if c := rec.Future(); c != nil {
			more(c, &x)
		}
		if list = append(list, x); len(list) == limit {
			break
		}
	}
	return list
}

func (e *Engine) maxAhead() int { return aheadPerCPU*int((e.line.Total()+oneCPU-1)/oneCPU) + 2 }

// hold counts a task that is held from now on.
func (e *Engine) hold(c *core.Future) {
	e.unqueued.Add(1)
	now := e.now()
	s := e.held.shard(c)
	s.mu.Lock()
	if s.since == nil {
		s.since = map[*core.Future]int64{}
	}
	s.since[c] = now
	s.mu.Unlock()
}

// unhold is the counterpart of hold.
func (e *Engine) unhold(c *core.Future) {
	e.unqueued.Add(-1)
	s := e.held.shard(c)
	s.mu.Lock()
	delete(s.since, c)
	s.mu.Unlock()
}

// Load returns how busy this node is.
func (e *Engine) Load() loadreport.Load {
	l := loadreport.Load{Shaped: int(e.shaped.Load()), Free: max(e.FreeCPU(), 0), Draining: e.closed.Load() || e.draining.Load()}
	l.Queued = e.Queued() + l.Shaped
	l.Held = float64(max(e.line.Held(), 0)) / oneCPU
	l.Shared = float64(min(e.line.Shared(), max(e.line.Held(), 0))) / oneCPU
	l.Rest = e.line.Report(loadreport.EncodeRest)
	if e.cfg.Bandwidth != nil {
		l.Bandwidth = e.cfg.Bandwidth()
	}
	if e.cfg.Memory != nil {
		l.Memory = e.cfg.Memory()
	}
	if x := e.net.Load(); x != nil {
		l.Queued += int(x.deferred.count.Load())
		l.InboundShaped = int(max(x.unansweredShaped.Load(), 0))
		l.Inbound = int(x.unanswered.Load())
		l.Parked = int(min(max(x.parked.Load(), 0), max(x.unanswered.Load()-x.unansweredShaped.Load(), 0)))
		taken := e.line.Total() - e.line.CPU().Load()
		if e.searching.Load() != 0 { // a worker that looks for work holds a CPU, which counts as free
			taken -= oneCPU
			l.Free = min(l.Free+1, float64(e.line.Total())/oneCPU)
		}
		l.Busy = float64(max(taken-x.notOwn.Load()*oneCPU, 0)) / oneCPU
		if l.Inbound == 0 { // and so does one that answers the last
			l.Free = max(l.Free, float64(e.line.Total())/oneCPU-l.Busy)
		}
		if e.line.OwesCPU() {
			l.Free = 0
		}
		l.Mean = x.means.mean()
		l.Line = x.means.shaped.estimateWait(l.Shaped)
	}
	return l
}

// rooms is ledger.Line.Rooms, for loadreport.ReadRooms; "" for none. It says of loadreport.MaxRooms bundles at most, of those first that have sick devices: where that is
// not known work would come, and be given back, again and again.
func (e *Engine) rooms() string {
	list := e.line.Rooms()
	if len(list) == 0 {
		return ""
	}
	slices.SortFunc(list, func(a, b ledger.Room) int {
		return cmp.Or(b.Sick()-a.Sick(), cmp.Compare(a.Bundle.Group, b.Bundle.Group), a.Bundle.Index-b.Bundle.Index)
	})
	return loadreport.EncodeRooms(list[:min(len(list), loadreport.MaxRooms)])
}

// Free returns the resources of this node that no task holds.
func (e *Engine) Free() raysys.Resources {
	free := e.line.Free()
	for _, d := range e.line.Spares() {
		free.GPU += d.Share
	}
	return raysys.Resources(free.Resources())
}

// mayPass reports whether a task that got err waits for the nodes to change.
func (e *Engine) mayPass(err error, o *core.Options) bool {
	t, _ := err.(temporary)
	return t != nil && t.Temporary() || e.waitsForResources(o) && errors.Is(err, raysys.ErrNoCapacity)
}

func (e *Engine) waitsForResources(o *core.Options) bool { return o.Waits || e.cfg.WaitForResources }

// RetryUnplaced is called when more is known of where tasks may go. It does not block.
func (e *Engine) RetryUnplaced() {
	if x := e.net.Load(); x != nil {
		e.cfg.Pool.Go(goroutines.Func(x.retryUnplaced))
	}
}

// remake makes a value again. Not on this goroutine: it may be one that fetches the values of another record, and so on.
func (e *Engine) remake(rec *recipe, lost error, done func(core.Source, error)) {
	e.cfg.Pool.Go(goroutines.Func(func() { rec.remake(lost, done) }))
}

// ExplainWaiting lists the tasks that wait on this node, its own and those of others, and where: up to limit of those whose ids begin
// so. It looks at all that wait, and costs them nothing before. A task of this node that runs here is not among them.
func (e *Engine) ExplainWaiting(ids core.Prefix, limit int) []Waiting {
	s := &search{e: e, ids: ids, limit: limit, seen: map[*core.Future]bool{}, now: e.now()}
	e.held.each(func(c *core.Future, since int64) {
		if s.wants(c) {
			s.add(c, s.held(c, since))
		}
	})
	x, asked := e.net.Load(), ""
	if x != nil {
		asked = x.owed.sayAsked()
	}
	s.queue(e.queue, "a CPU: it is in the queue of this node, and of all nodes that have room"+asked)
	if x != nil {
		s.queue(x.inbound, "a CPU: it is in the queue of tasks of other nodes")
		s.deferred(&x.deferred)
	}
	e.bundles.mu.Lock()
	for _, w := range e.bundles.deferred {
		if s.wants(&w.task.Future) {
			s.add(&w.task.Future, raysys.Waiting{Stage: core.StageBundle, For: "its placement group: the bundle has no node yet", Waited: s.since(w.since)})
		}
	}
	e.bundles.mu.Unlock()
	for _, w := range e.line.Waiting(func(w ledger.Work) bool { t, ok := w.(shaped); return ok && s.wants(t.Future) }) {
		s.add(w.Work.(shaped).Future, w.Explain(s.now))
	}
	if x != nil {
		s.elsewhere(x)
	}
	return s.list
}

// Tick is called some times a second: what waits in the queue has no time of its own, and is known to be older than a tick; and
// what it will take is reported to other nodes.
func (e *Engine) Tick() {
	if x := e.net.Load(); x != nil {
		x.means.weigh(e.queue, x.inbound)
	}
	rememberWork(e, e.now())
}

// start hands j, whose CPUs are taken, to an idle worker or a new one.
func (e *Engine) start(j job) {
	e.mu.Lock()
	var w *worker
	if n := len(e.idle); n > 0 {
		w, e.idle = e.idle[n-1], e.idle[:n-1]
	} else {
		e.live++
	}
	e.busy++
	e.mu.Unlock()
	if w != nil {
		e.cfg.Actors.Root.Send(w.pid, &j)
		return
	}
	e.cfg.Actors.Root.Send(e.cfg.Actors.Root.Spawn(e.props), &j)
}

// lacksCPU is called when a task may wait and no CPU is free. It costs one load where no activation holds CPU.
func (e *Engine) lacksCPU() {
	if e.line.Yielding.Load() == 0 || e.cfg.MakeRoom == nil || !e.yielding.armed.CompareAndSwap(false, true) {
		return
	}
	e.yielding.alarm.Ring = e.askForCPU
	e.yielding.alarm.At = e.now() + int64(yieldPause)
	e.cfg.Runtime.SetAlarm(&e.yielding.alarm)
}

// askForCPU runs on the clock's goroutine.
func (e *Engine) askForCPU() {
	if !e.needsCPU() {
		e.yielding.armed.Store(false)
		if e.needsCPU() { // since the look before, and lacksCPU found it armed
			e.lacksCPU()
		}
		return
	}
	e.cfg.Pool.Go(goroutines.Func(func() {
		waits := e.queue.Len()
		if x := e.net.Load(); x != nil {
			waits += x.inbound.Len() + int(x.deferred.count.Load())
		}
		e.cfg.MakeRoom(min(waits, int(e.line.Total()/oneCPU)))
	}))
	e.yielding.alarm.At = e.now() + int64(yieldPause)
	e.cfg.Runtime.SetAlarm(&e.yielding.alarm)
}

// needsCPU reports whether tasks wait for a CPU while activations hold some.
func (e *Engine) needsCPU() bool {
	return e.line.Yielding.Load() != 0 && e.line.CPU().Load() < oneCPU && e.waits() && !e.closed.Load()
}

// Close refuses further tasks, drops the queued ones and waits until running ones have returned or ctx ends. The
// caller has cancelled the turns the tasks came from.
func (e *Engine) Close(ctx context.Context) error {
	e.closed.Store(true)
	e.signalRoom()
	if x := e.net.Load(); x != nil {
		x.close()
		x.giveBackQueued()
	}
	for _, w := range e.takeDeferredBundles() {
		w.task.Future.Cancel(raysys.ErrClosed)
	}
	for c := e.queue.Pop(); c != nil; c = e.queue.Pop() {
		c.Cancel(raysys.ErrClosed)
	}
	for _, w := range e.line.Remove(isTask) {
		e.shaped.Add(-1)
		w.(shaped).Cancel(raysys.ErrClosed)
	}
	e.mu.Lock()
	for _, w := range e.idle {
		e.cfg.Actors.Root.Stop(w.pid)
	}
	e.live -= len(e.idle)
	e.idle = nil
	if e.lineage != nil {
		defer e.lineage.close()
	}
	if e.busy == 0 {
		e.mu.Unlock()
		return nil
	}
	allIdle := make(chan struct{})
	e.allIdle = allIdle
	e.mu.Unlock()

	select {
	case <-allIdle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close: tasks still run%s: %w", named(e.Busy(maxNamed)), context.Cause(ctx))
	}
}

// Drain makes the node refuse tasks of other nodes and give back those that have not begun. It sends the node's own
// tasks to peers that have room, and returns when no task runs or waits here, or when ctx ends.
func (e *Engine) Drain(ctx context.Context) error {
	drained := make(chan struct{})
	e.mu.Lock()
	if e.drained == nil {
		e.drained = drained
	} else {
		drained = e.drained
	}
	e.mu.Unlock()
	e.draining.Store(true)
	if x := e.net.Load(); x != nil {
		x.giveBackQueued()
		x.recheck()
	}
	if e.cfg.Changed != nil {
		e.cfg.Changed()
	}
	e.checkDrained()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain: tasks are left (%d of this node, %d of others%s): %w", e.Queued()+int(e.unqueued.Load()), e.Load().Inbound, named(e.Busy(maxNamed)), context.Cause(ctx))
	}
}

// CancelDrain makes a node that drains take tasks again.
func (e *Engine) CancelDrain() {
	e.draining.Store(false)
	e.mu.Lock()
	e.drained = nil
	e.mu.Unlock()
	if x := e.net.Load(); x != nil {
		x.recheck()
		x.owed.tell(0) // no CPU becomes free
	}
	if e.cfg.Changed != nil {
		e.cfg.Changed()
	}
}

// maxNamed bounds the tasks that an error names.
const maxNamed = 10

// named shows names behind a count.
func named(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

// Busy names up to limit tasks of other nodes that are here and have not been answered, and how many more there are.
func (e *Engine) Busy(limit int) (names []string) {
	x := e.net.Load()
	if x == nil {
		return nil
	}
	more := 0
	x.each(func(p *peer) {
		p.inbound.each(func(a *inboundTask) {
			switch {
			case a.answered.Load():
			case len(names) < limit:
				c := &a.Future
				state := "waits"
				if !c.Pending() {
					state = "runs"
				}
				names = append(names, fmt.Sprintf("task %s of node %s %s", c.Work().Name(), p.Node(), state))
			default:
				more++
			}
		})
	})
	if more > 0 {
		names = append(names, fmt.Sprintf("%d tasks more", more))
	}
	return names
}

// checkDrained is called wherever the last task of a draining node may have ended.
func (e *Engine) checkDrained() {
	if !e.draining.Load() {
		return
	}
	x := e.net.Load()
	if n := e.unqueued.Load(); n != 0 && n != e.held.joined() { // what has joined a task of another node waits for that
		return
	}
	if e.waits() || e.shaped.Load() != 0 || x != nil && (x.unanswered.Load() != 0 || x.answering.Load() != 0 || x.away.Load() != 0) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy != 0 || e.drained == nil {
		return
	}
	select {
	case <-e.drained:
	default:
		close(e.drained)
	}
}

// Stuck names what the tasks of this node wait for and no node has: a function, or the resources of a request. ""
// when there is no such task. A task that waits for its turn in the queue does not count.
func (e *Engine) Stuck() string {
	x := e.net.Load()
	if x == nil {
		return ""
	}
	d := &x.deferred
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.order {
		if l.since != 0 {
			return fmt.Sprintf("a worker that has function %s (%d wait for it): start one with this program", l.entry.Name, len(l.futures))
		}
	}
	if len(d.unplaced) > 0 {
		w := d.unplaced[0].task
		return fmt.Sprintf("capacity: no node has what %s asks for free, nor for %d others", w.Name(), len(d.unplaced)-1)
	}
	return ""
}
