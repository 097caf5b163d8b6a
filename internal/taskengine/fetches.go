package taskengine

import (
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys/internal/goroutines"
)

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

func (e *Engine) maxAhead() int { return aheadPerCPU*int((e.line.Total()+oneCPU-1)/oneCPU) + 2 }

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

// over implements heldTask.
func (r *record) over() bool { return r.Future.Settled() }

func (d *deps) over() bool  { return d.task.over() }
func (d *deps) plain() bool { return d.task.plain() }
