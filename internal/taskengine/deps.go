package taskengine

import (
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
)

// deps are the dependencies of a task. They hold the task until its futures have settled, and then until their values
// are here or the task has been placed on another node. They are attached to the task's turn, also while the task is
// elsewhere, and keep the objects that its parameters are in.
//
//	settle ──┬── all values are here ──────────────────────────────► ready
//	         ├── fetch the values elsewhere ───────────────────────► ready
//	         └── data-local: the task is placed, and its values stay ──┬─► sent with references to them
//	                                                                   └─► it stays here: fetch
type deps struct {
	task        heldTask
	job         *core.Job
	waits       atomic.Pointer[inputWait] // the last
	futures     []*core.Future
	params      atomic.Pointer[[]*param]    // the parameters, of a task that got them by reference; nil once they are returned
	onTaken     func()                      // the parameters are in the argument; may be nil
	fetch       bool                        // the task waits for values that are elsewhere; changed only while it waits for nothing
	stays       bool                        // the task was given to this node, with its values; changed only while the task is held
	remakes     bool                        // the task makes a lost value again, and takes no permit
	byRef       []*core.Future              // what the program gave as parameters by reference
	fetchPermit fetchPermit                 // taken while the values of this task are fetched
	dataLocal   atomic.Bool                 // the argument is not complete, and the task goes to where its values are
	joined      atomic.Pointer[core.Source] // the outcome of the task that has its name
}

// inputWait is one wait for futures. It alone is known to these: they may settle much later than the task, or never, and would keep
// what the task keeps.
type inputWait struct {
	deps      atomic.Pointer[deps] // until a goroutine has the task: the one that sees the last future settle, or that which cancels the task
	unsettled atomic.Int32         // futures that have not settled, and one for the submitter
	waiters   []core.Waiter
	one       [1]core.Waiter // most tasks wait for one future
}

// heldTask is what deps needs of the record it holds.
type heldTask interface {
	// goesToValues reports whether the task is to be placed by where its values are, instead of having them fetched.
	goesToValues(*deps) bool
	// keepsParams reports whether the parameters stay borrowed although the argument has them: it may go to another
	// node.
	keepsParams(*deps) bool
	ready()
	settleFailed(error)
	// over reports whether the task has settled.
	over() bool
	// plain reports whether the task asks for one CPU, on any node, and nothing else.
	plain() bool
}

// missing lists the futures that the task still needs. Once a parameter's value is in the argument, its future is not
// needed: it may lose the value again while the values of others arrive.
func (d *deps) missing() []*core.Future {
	params := d.params.Load()
	if params == nil {
		return d.futures
	}
	has := map[*core.Future]bool{}
	for _, p := range *params {
		has[p.future] = p.has
	}
	var list []*core.Future
	for _, c := range d.futures {
		if !has[c] {
			list = append(list, c)
		}
	}
	return list
}

// wait subscribes to the futures that are missing. The task is held.
func (d *deps) wait() {
	futures := d.futures
	if d.fetch {
		futures = d.missing()
	}
	x := &inputWait{}
	if x.waiters = x.one[:]; len(futures) != 1 {
		x.waiters = make([]core.Waiter, len(futures))
	}
	x.deps.Store(d)
	x.unsettled.Store(int32(len(futures)) + 1)
	d.waits.Store(x)
	if d.task.over() { // checked after the store, so that this goroutine or the one that cancels the task abandons it
		d.abandon()
		return
	}
	fetch := d.fetch
	for i, c := range futures {
		if !c.Subscribe(&x.waiters[i], x) && !(fetch && c.Follow(&x.waiters[i], x)) {
			x.waiters[i] = core.Waiter{}
			x.unsettled.Add(-1)
		}
	}
	x.arrived()
}

// Resolved implements core.Resolved.
func (x *inputWait) Resolved(w *core.Waiter) {
	if d := x.deps.Load(); d != nil && d.fetch && w.Future().Follow(w, x) {
		return
	}
	*w = core.Waiter{} // it would keep the value while others are awaited
	x.arrived()
}

// Lapsed implements core.Lapsing, and Swept does.
func (x *inputWait) Lapsed() bool { return x.deps.Load() == nil }

// Swept implements core.Lapsing: the task has let go of its inputs.
func (x *inputWait) Swept() {}

func (x *inputWait) arrived() {
	if x.unsettled.Add(-1) > 0 {
		return
	}
	if d := x.deps.Swap(nil); d != nil {
		d.settled()
	}
}

// abandon lets go of a task that has settled while it waits for futures.
func (d *deps) abandon() {
	if x := d.waits.Load(); x != nil && x.deps.Swap(nil) != nil {
		d.task.ready() // finds that the task has settled, and releases what it holds
		for _, c := range d.futures {
			c.Lapse()
		}
	}
}

// settled is called when the futures have.
func (d *deps) settled() {
	// A failed dependency fails the task with that error, and the task does not run: the first in parameter order, so
	// that the outcome does not depend on timing.
	absent, futures := false, d.futures
	if d.fetch {
		futures = d.missing()
	}
	for _, c := range futures {
		if !d.fetch && c.Absent() { // the error of an earlier fetch does not count
			absent = true
			continue
		}
		if err := c.Failure(); err != nil {
			d.returnParams()
			d.task.settleFailed(err)
			return
		}
	}
	if !d.fetch {
		if d.task.goesToValues(d) {
			d.dataLocal.Store(true)
			d.task.ready()
			return
		}
		if d.fetch = true; absent {
			d.fetchAbsent()
			return
		}
	}
	if params := d.params.Load(); params != nil {
		here, err := takeAll(*params, d.job)
		switch {
		case err != nil:
			d.returnParams()
			d.task.settleFailed(err)
			return
		case !here: // one value was evicted while others arrived: that may go on, so this does not call itself
			d.job.Runtime.(Runtime).Tasks().cfg.Pool.Go(goroutines.Func(d.wait))
			return
		}
		if !d.task.keepsParams(d) {
			d.returnParams()
		}
		if d.onTaken != nil {
			d.onTaken()
		}
	}
	d.task.ready()
}

// returnParams ends the borrows of the parameters.
func (d *deps) returnParams() {
	if params := d.params.Swap(nil); params != nil {
		for _, p := range *params {
			p.future.Return()
		}
	}
}

// open returns the futures the task still waits for.
func (d *deps) open() (futures []*core.Future) {
	for _, c := range d.futures {
		if !c.Settled() {
			futures = append(futures, c)
		}
	}
	return futures
}

// ready and settleFailed let deps wait for the references inside the values of another deps.
func (d *deps) ready()                  { d.wait() }
func (d *deps) goesToValues(*deps) bool { return false }
func (d *deps) keepsParams(*deps) bool  { return false }
func (d *deps) settleFailed(err error)  { d.task.settleFailed(err) }

// A task whose values are on other nodes goes to one of them instead of having them fetched to this one first: it is
// data-local. Its argument is not complete here, so it is never in a queue that workers take from. Config.Place chooses
// its node. A peer fetches its values before it takes a CPU. If the chosen node is this one, the task continues as an
// ordinary task that fetches its values (stay).

// inputs says where the values are that the task needs, as far as they are large.
func (d *deps) inputs() (list []core.Whereabouts) {
	seen := map[*core.Future]bool{}
	for _, c := range d.futures {
		w, ok := core.WhereaboutsOf(c)
		if !ok {
			w = core.Whereabouts{Size: sizeHere(c), Here: true}
		}
		if w.Size > raysys.ObjectSize && !seen[c] {
			seen[c] = true
			list = append(list, w)
		}
	}
	return list
}

// sizeHere is the size of a value in this node's memory, 0 where there is none.
func sizeHere(c *core.Future) int64 {
	v, err := c.Outcome()
	if err != nil {
		return 0
	}
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return 0
	}
	return int64(plan.Size(value))
}

// fetches bounds the tasks that do not run yet and whose values have been fetched from other nodes, or are being
// fetched. The bound is high enough that no CPU waits for the network, and low enough that a long queue does not bring
// all its values into memory. Other tasks wait in order. A task takes a permit when only values that exist are missing,
// so a permit never waits for a task.
//
// Tasks that are not plain take no permit: they may wait for long after their values have arrived,
// and the tasks that hold the resources may wait for tasks behind them. Nor do tasks that make a lost value again: tasks
// that have permits may wait for them.
type fetches struct {
	mu    sync.Mutex // guards the rest
	used  int
	queue []*deps
}

// aheadPerCPU is how many tasks per CPU have their values fetched before they run, beside two of the node.
const aheadPerCPU = 2

// fetchPermit says whether a task has one of the permits.
type fetchPermit struct{ taken atomic.Bool }

// fetchAbsent fetches the values of d now, or when a permit is free.
func (d *deps) fetchAbsent() {
	if d.remakes || !d.task.plain() || d.fetchPermit.taken.Load() {
		d.wait()
		return
	}
	e := d.job.Runtime.(Runtime).Tasks()
	f := &e.fetches
	f.mu.Lock()
	if f.used >= e.maxAhead() {
		f.queue = append(f.queue, d)
		f.mu.Unlock()
		return
	}
	f.used++
	d.fetchPermit.taken.Store(true)
	f.mu.Unlock()
	d.wait()
}

// releaseFetchPermit gives the permit of d, if it has one, to the next task that waits.
func (d *deps) releaseFetchPermit() {
	if !d.fetchPermit.taken.Load() || !d.fetchPermit.taken.Swap(false) {
		return
	}
	e := d.job.Runtime.(Runtime).Tasks()
	next, gone := e.fetches.next()
	if next == nil && gone == nil {
		return
	}
	e.cfg.Pool.Go(goroutines.Func(func() { // the caller, which runs or ends a task, does not wait for this
		if next != nil {
			next.wait()
		}
		for _, d := range gone {
			d.task.ready() // ready finds that the task has settled, and releases what it holds
		}
	}))
}

// next hands a permit on. It returns the deps that got it, nil when none wait, and the deps whose task has settled
// meanwhile.
func (f *fetches) next() (next *deps, gone []*deps) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) > 0 {
		d := f.queue[0]
		f.queue[0], f.queue = nil, f.queue[1:]
		d.fetchPermit.taken.Store(true)
		if !d.task.over() { // checked after the permit was taken: a task that ends later hands it on itself
			return d, gone
		}
		if !d.fetchPermit.taken.Swap(false) {
			return nil, gone // the end of the task has handed the permit on
		}
		gone = append(gone, d)
	}
	f.queue = nil
	f.used--
	return nil, gone
}

func (d *deps) over() bool  { return d.task.over() }
func (d *deps) plain() bool { return d.task.plain() }
