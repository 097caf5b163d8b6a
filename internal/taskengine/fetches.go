package taskengine

import (
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys/internal/goroutines"
)

// fetches bounds the tasks that do not run yet and whose values have been fetched from other nodes, or are being
// fetched. The bound is high enough that no CPU waits for the network, and low enough that a long queue does not bring
// all its values into memory. Other tasks wait in order. A task takes a slot when only values that exist are missing,
// so a slot never waits for a task.
//
// Tasks that ask for other resources than one CPU take no slot: they may wait for long after their values have arrived,
// and the tasks that hold the resources may wait for tasks behind them.
type fetches struct {
	mu    sync.Mutex // guards the rest
	used  int
	queue []*deps
}

// aheadPerCPU is how many tasks per CPU have their values fetched before they run, beside two of the node.
const aheadPerCPU = 2

func (e *Engine) maxAhead() int { return aheadPerCPU*int((e.total.cpu+oneCPU-1)/oneCPU) + 2 }

// fetchSlot says whether a task has one of the slots.
type fetchSlot struct{ taken atomic.Bool }

// fetchAbsent fetches the values of d now, or when a slot is free.
func (d *deps) fetchAbsent() {
	if !d.task.queues() || d.fetchSlot.taken.Load() {
		d.wait()
		return
	}
	e := d.job.Runtime.(tasksRuntime).Tasks()
	a := &e.fetches
	a.mu.Lock()
	if a.used >= e.maxAhead() {
		a.queue = append(a.queue, d)
		a.mu.Unlock()
		return
	}
	a.used++
	d.fetchSlot.taken.Store(true)
	a.mu.Unlock()
	d.wait()
}

// releaseFetchSlot gives the slot of d, if it has one, to the next task that waits.
func (d *deps) releaseFetchSlot() {
	if !d.fetchSlot.taken.Load() || !d.fetchSlot.taken.Swap(false) {
		return
	}
	e := d.job.Runtime.(tasksRuntime).Tasks()
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

// next hands a slot on. It returns the deps that got it, nil when none wait, and the deps whose task has settled
// meanwhile.
func (a *fetches) next() (next *deps, gone []*deps) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 {
		d := a.queue[0]
		a.queue[0], a.queue = nil, a.queue[1:]
		d.fetchSlot.taken.Store(true)
		if !d.task.over() { // checked after the slot was taken: a task that ends later hands it on itself
			return d, gone
		}
		if !d.fetchSlot.taken.Swap(false) {
			return nil, gone // the end of the task has handed the slot on
		}
		gone = append(gone, d)
	}
	a.queue = nil
	a.used--
	return nil, gone
}

// over implements held.
func (r *record[A, R]) over() bool { return r.Settled() }

// queues implements held.
func (r *record[A, R]) queues() bool { return r.spec.common }

func (d *deps) over() bool   { return d.task.over() }
func (d *deps) queues() bool { return d.task.queues() }
