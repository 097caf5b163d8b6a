package taskengine

import (
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys/internal/goroutines"
)

// fetches bounds the tasks whose values are being fetched from elsewhere, or have been, and that do not run yet: enough that
// no CPU waits for the wire, few enough that a long queue does not bring all that it will ever need into memory. The others
// wait in order. A place is taken when nothing is missing but values that exist, so it never waits for a task.
//
// Tasks that ask for other resources than one CPU take no place: they may have to wait for long with their values, and
// those that hold the resources may wait for tasks behind them.
type fetches struct {
	mu    sync.Mutex // guards the rest
	used  int
	queue []*deps
}

// aheadPerCPU is how many tasks per CPU have their values fetched before they run, beside two of the node.
const aheadPerCPU = 2

func (e *Engine) maxAhead() int { return aheadPerCPU*int((e.total.cpu+oneCPU-1)/oneCPU) + 2 }

// place is a deps' part in it.
type place struct{ taken atomic.Bool }

// come fetches the values of d now, or when there is a place.
func (d *deps) come() {
	if !d.task.queues() || d.place.taken.Load() {
		d.wait()
		return
	}
	e := d.job.Runtime.(host).Tasks()
	a := &e.fetches
	a.mu.Lock()
	if a.used >= e.maxAhead() {
		a.queue = append(a.queue, d)
		a.mu.Unlock()
		return
	}
	a.used++
	d.place.taken.Store(true)
	a.mu.Unlock()
	d.wait()
}

// leave gives the place of d, if it has one, to the next that waits.
func (d *deps) leave() {
	if !d.place.taken.Load() || !d.place.taken.Swap(false) {
		return
	}
	e := d.job.Runtime.(host).Tasks()
	next, gone := e.fetches.next()
	if next == nil && gone == nil {
		return
	}
	e.cfg.Pool.Go(goroutines.Func(func() { // whoever ends or runs here shall not wait for what that does
		if next != nil {
			next.wait()
		}
		for _, d := range gone {
			d.task.ready() // which finds that it has settled, and lets go of what it holds
		}
	}))
}

// next hands a place on, and returns who has it, nil when nobody waits, and those whose task has settled meanwhile.
func (a *fetches) next() (next *deps, gone []*deps) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 {
		d := a.queue[0]
		a.queue[0], a.queue = nil, a.queue[1:]
		d.place.taken.Store(true)
		if !d.task.over() { // looked at after the place was taken: who ends now gives it on
			return d, gone
		}
		if !d.place.taken.Swap(false) {
			return nil, gone // its end has handed the place on
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
