package taskengine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// deferred holds tasks that were popped from the run queue for a peer that cannot run them: it lacks their function, or
// gave them back, or they cannot travel at all. Workers of this node take from it before they take from the queue,
// since these tasks are older, unless a task of class High waits there; tasks that were given back are here while all that wait are alike,
// else the run queue has them (Return). It also holds the tasks for which placement has found no node yet.
type deferred struct {
	count   atomic.Int64
	retries atomic.Uint64 // how often the unplaced were tried again

	mu       sync.Mutex     // guards the rest
	own      []*core.Future // only this node can run them
	lists    map[*core.Entry]*waitlist
	order    []*waitlist
	unplaced []unplacedTask // tasks that are placed, not queued, and that no node could take yet
}

// waitlist are the tasks of one function.
type waitlist struct {
	entry   *core.Entry
	futures []*core.Future
	since   int64 // when the engine found that no node can run them; 0 while one can
}

// put keeps a task that some other peer may run.
func (d *deferred) put(e *Engine, entry *core.Entry, c *core.Future) {
	e.unqueued.Add(1)
	d.mu.Lock()
	l := d.lists[entry]
	if l == nil {
		l = &waitlist{entry: entry}
		if d.lists == nil {
			d.lists = map[*core.Entry]*waitlist{}
		}
		d.lists[entry] = l
		d.order = append(d.order, l)
	}
	l.futures = append(l.futures, c)
	d.mu.Unlock()
	d.count.Add(1)
}

// putOwn keeps a task that only this node can run.
func (d *deferred) putOwn(e *Engine, c *core.Future) {
	e.unqueued.Add(1)
	d.mu.Lock()
	d.own = append(d.own, c)
	d.mu.Unlock()
	d.count.Add(1)
}

// pop takes a task to run here.
func (d *deferred) pop(e *Engine) *core.Future {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.own) > 0 {
		c := d.own[0]
		d.own[0], d.own = nil, d.own[1:]
		d.countTaken(e, 1)
		return c
	}
	if len(d.order) == 0 {
		return nil
	}
	return d.first(e, d.order[0])
}

// popFor takes a task that p can run.
func (d *deferred) popFor(e *Engine, p *peer) *core.Future {
	if d.count.Load() == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.order {
		if _, ok := p.Runs(l.entry); ok {
			return d.first(e, l)
		}
	}
	return nil
}

// first takes the oldest of l; the caller holds mu.
func (d *deferred) first(e *Engine, l *waitlist) *core.Future {
	c := l.futures[0]
	l.futures[0], l.futures = nil, l.futures[1:]
	if len(l.futures) == 0 {
		d.remove(l)
	}
	d.countTaken(e, 1)
	return c
}

func (d *deferred) remove(l *waitlist) {
	delete(d.lists, l.entry)
	d.order = slices.DeleteFunc(d.order, func(o *waitlist) bool { return o == l })
}

func (d *deferred) countTaken(e *Engine, n int) {
	d.count.Add(-int64(n))
	e.unqueued.Add(-int64(n))
}

// sendable reports whether a peer with room could run a task that is here.
func (d *deferred) sendable(x *exchange) bool {
	if d.count.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range *x.peers.Load() {
		if x.room(p).Tasks == 0 {
			continue
		}
		for _, l := range d.order {
			if _, ok := p.Runs(l.entry); ok {
				return true
			}
		}
	}
	return false
}

// drain takes everything.
func (d *deferred) drain(e *Engine) (all []*core.Future) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all = d.own
	for _, l := range d.order {
		all = append(all, l.futures...)
	}
	d.countTaken(e, len(all))
	for _, w := range d.unplaced {
		all = append(all, &w.task.Future)
	}
	e.unqueued.Add(-int64(len(d.unplaced)))
	d.own, d.lists, d.order, d.unplaced = nil, nil, nil, nil
	return all
}

// patience is how long tasks whose function no node of the view has wait for one that has it: a rolling upgrade may be
// under way.
const patience = int64(10 * time.Second)

// hopeless takes the tasks that have waited long enough for a node that knows their function, and returns when to look
// again, 0 for never.
func (d *deferred) hopeless(x *exchange, now int64) (gone []*core.Future, again int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.order) == 0 || x.e.line.Total() >= oneCPU || !x.hasWorkers() {
		for _, l := range d.order {
			l.since = 0
		}
		return nil, 0
	}
	for _, l := range slices.Clone(d.order) {
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
			d.countTaken(x.e, len(l.futures))
			d.remove(l)
		}
	}
	return gone, again
}

// heldTasks are the tasks that are held: no queue has them, and a question where one waits looks here. They are in shards, since
// all CPUs hold tasks.
type heldTasks [heldShards]heldShard

const heldShards = 64

type heldShard struct {
	mu    sync.Mutex
	since map[*core.Future]int64 // on the runtime's clock
	_     [40]byte
}

func (h *heldTasks) shard(c *core.Future) *heldShard {
	return &h[uintptr(unsafe.Pointer(c))>>7%heldShards]
}

// joined counts the tasks that are held and have joined one of another node. It is 0 where others are held too.
func (h *heldTasks) joined() (n int64) {
	for i := range h {
		s := &h[i]
		s.mu.Lock()
		for c := range s.since {
			if JoinedOf(c) == nil {
				s.mu.Unlock()
				return 0
			}
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// each calls f with the tasks that are held, and since when.
func (h *heldTasks) each(f func(c *core.Future, since int64)) {
	for i := range h {
		s := &h[i]
		s.mu.Lock()
		for c, since := range s.since {
			f(c, since)
		}
		s.mu.Unlock()
	}
}
