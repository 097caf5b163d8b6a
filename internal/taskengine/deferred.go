package taskengine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// deferred holds tasks that left the common queue and could not be sent: the peer that had room lacks their function,
// or sent them back, or they cannot travel at all. Workers of this node take from it before they take from the queue,
// since these tasks are older.
type deferred struct {
	count  atomic.Int64
	routes atomic.Uint64 // how often placed was tried again

	mu     sync.Mutex // guards the rest
	home   []*core.Future
	lists  map[*core.Entry]*waitlist
	order  []*waitlist
	placed []placing // tasks with other needs than one CPU that no node could take yet
}

// waitlist are the tasks of one function.
type waitlist struct {
	entry   *core.Entry
	futures []*core.Future
	since   int64 // when the engine found that no node can run them; 0 while one can
}

// put keeps a task that some other peer may run.
func (a *deferred) put(e *Engine, entry *core.Entry, c *core.Future) {
	e.held.Add(1)
	a.mu.Lock()
	l := a.lists[entry]
	if l == nil {
		l = &waitlist{entry: entry}
		if a.lists == nil {
			a.lists = map[*core.Entry]*waitlist{}
		}
		a.lists[entry] = l
		a.order = append(a.order, l)
	}
	l.futures = append(l.futures, c)
	a.mu.Unlock()
	a.count.Add(1)
}

// keep keeps a task that only this node can run.
func (a *deferred) keep(e *Engine, c *core.Future) {
	e.held.Add(1)
	a.mu.Lock()
	a.home = append(a.home, c)
	a.mu.Unlock()
	a.count.Add(1)
}

// pop takes a task to run here.
func (a *deferred) pop(e *Engine) *core.Future {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.home) > 0 {
		c := a.home[0]
		a.home[0], a.home = nil, a.home[1:]
		a.took(e, 1)
		return c
	}
	if len(a.order) == 0 {
		return nil
	}
	return a.first(e, a.order[0])
}

// popFor takes a task that p can run.
func (a *deferred) popFor(e *Engine, p *peer) *core.Future {
	if a.count.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.order {
		if _, ok := p.Runs(l.entry); ok {
			return a.first(e, l)
		}
	}
	return nil
}

// first takes the oldest of l; the caller holds mu.
func (a *deferred) first(e *Engine, l *waitlist) *core.Future {
	c := l.futures[0]
	l.futures[0], l.futures = nil, l.futures[1:]
	if len(l.futures) == 0 {
		a.remove(l)
	}
	a.took(e, 1)
	return c
}

func (a *deferred) remove(l *waitlist) {
	delete(a.lists, l.entry)
	a.order = slices.DeleteFunc(a.order, func(o *waitlist) bool { return o == l })
}

func (a *deferred) took(e *Engine, n int) {
	a.count.Add(-int64(n))
	e.held.Add(-int64(n))
}

// wanted reports whether a peer with room could run a task that is here.
func (a *deferred) wanted(x *exchange) bool {
	if a.count.Load() == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range *x.peers.Load() {
		if _, n := x.room(p); n == 0 {
			continue
		}
		for _, l := range a.order {
			if _, ok := p.Runs(l.entry); ok {
				return true
			}
		}
	}
	return false
}

// drain takes everything.
func (a *deferred) drain(e *Engine) (all []*core.Future) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all = a.home
	for _, l := range a.order {
		all = append(all, l.futures...)
	}
	a.took(e, len(all))
	for _, w := range a.placed {
		all = append(all, w.future)
	}
	e.held.Add(-int64(len(a.placed)))
	a.home, a.lists, a.order, a.placed = nil, nil, nil, nil
	return all
}

// patience is how long tasks whose function no node of the view has wait for one that has it: a rolling upgrade may be
// under way.
const patience = int64(10 * time.Second)

// hopeless takes the tasks that have waited long enough for a node that knows their function, and returns when to look
// again, 0 for never.
func (a *deferred) hopeless(x *exchange, now int64) (gone []*core.Future, again int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.order) == 0 || x.e.total.cpu >= oneCPU || !x.hasWorkers() {
		for _, l := range a.order {
			l.since = 0
		}
		return nil, 0
	}
	for _, l := range slices.Clone(a.order) {
		known := slices.ContainsFunc(*x.peers.Load(), func(p *peer) bool {
			_, ok := p.Runs(l.entry)
			return ok && p.cpus > 0
		})
		switch {
		case known:
			l.since = 0
		case l.since == 0:
			l.since = max(now, 1)
			fallthrough
		case now-l.since < patience:
			if at := l.since + patience; again == 0 || at < again {
				again = at
			}
		default:
			gone = append(gone, l.futures...)
			a.took(x.e, len(l.futures))
			a.remove(l)
		}
	}
	return gone, again
}
