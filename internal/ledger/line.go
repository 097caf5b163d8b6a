package ledger

import (
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
)

// Line is the ledger of one node with the work that waits for its resources, for several goroutines. It has a list for each
// shape of need, so that work whose devices are taken holds up none of another shape.
type Line struct {
	// Waits is how much work waits. While it is 0 the CPU of the ledger is all that a one-CPU task touches.
	Waits atomic.Int32
	// Roaming is how much work waits in its bundles that may be in any bundle of its group.
	Roaming atomic.Int32
	// Yielding is how many activations have CPU of the node that they give back when they are idle and tasks of one CPU wait for it.
	Yielding atomic.Int32

	held    atomic.Int64 // see Held
	ofJobs  atomic.Int64 // of held, what work of jobs has
	ill     atomic.Bool  // a device is sick
	owesCPU atomic.Bool  // of owed
	lackCPU atomic.Bool  // of lacks
	ledger  Ledger
	hooks   Hooks
	shares  *Shares // of the node
	short   func()
	report  atomic.Pointer[string] // Report's; nil after a change

	moving sync.Mutex   // of Move
	looks  atomic.Int32 // calls of roam that have not looked yet

	mu     sync.Mutex          // guards the rest, and the ledger but for its CPU
	shapes []*shape            // that wait, by the age of their oldest claim
	byKey  map[shapeKey]*shape // the same
	pushed uint64              // claims so far
	classy int                 // shapes of another class than Normal
	owed   owed                // to those that wait; empty when none does
	lacks  owed                // by those that wait, also what is not kept for them now
	// staying is the ledger as if nothing were taken but what stays.
	staying Ledger
	looksAt int64 // when the line is looked at next because of what is kept; it may be past

	bundles map[core.Bundle]*Bundle // carved out of it
	running map[*Hold]Work          // what was granted, but for work that asks for nothing of a node
	node    *Line                   // out of which it is carved; nil for a node's
	closed  bool                    // of a bundle: it grants nothing
}

// Hooks are what a Line asks of the run queue of one-CPU tasks, which take their CPU past it.
type Hooks struct {
	// Queue counts the tasks that have been queued and that have left the queue.
	Queue func() (pushed, popped uint64)
	// Now is the clock, for Demand.
	Now func() int64
	// Above reports whether a task of the run queue waits that goes before such work: of a job with less use, or of a higher class. less says
	// that all that wait are of other jobs, so that their age does not count.
	Above func(Standing) (above, less bool)
	// Freed is called when resources have become free.
	Freed func()
	// Changed is called when other than CPU, or several CPUs, was taken or has become free, or a device sick or well; nil for none.
	Changed func()
	// Later has f called at a time of the clock, without a lock; nil for a clock that stands. It is called under the lock.
	Later func(at int64, f func())
	// Choose takes whole devices; nil takes the first. It is called under the lock.
	Choose Choose
}

// OnShort has f called, without a lock, when work waits that nothing free will do for. It is called before the line is used.
func (l *Line) OnShort(f func()) { l.short = f }

// Work is what waits in a Line. All but Grant is called under its lock.
type Work interface {
	// Class is that of the work, which does not change.
	Class() core.Class
	// Job is that of which its use of the node is; nil for work of none. It does not change.
	Job() *core.Job
	// Over reports whether the work has ended without having begun, or will end at its next check.
	Over() bool
	// Begins is called when all that it asks for is free, and reports whether nothing else is in the way: then Grant follows.
	Begins(n *Need) bool
	// Grant has the work begin with h, which it gives back by Return once its code has returned. Work that is over gets nil.
	Grant(h *Hold)
}

// Init makes l the line of a node that has total, of which GPU is not read, and devices.
func (l *Line) Init(total Need, devices []Device, h Hooks) {
	l.ledger.init(total, devices)
	l.staying.init(total, devices)
	l.ledger.choose = h.Choose
	l.hooks, l.running, l.shares = h, map[*Hold]Work{}, new(Shares)
}

// Shares is the use that jobs have had of the node.
func (l *Line) Shares() *Shares { return l.shares }

// CPU is the free CPU, in thousandths; below zero while work that went on after a wait overlaps with other work.
func (l *Line) CPU() *atomic.Int64 { return &l.ledger.CPU }

// TakeCPU takes n thousandths if they are free.
func (l *Line) TakeCPU(n int64) bool { return l.ledger.TakeCPU(n) }

// GiveCPU returns n thousandths and starts what waited for them, here or in the run queue.
func (l *Line) GiveCPU(n int64) {
	l.ledger.CPU.Add(n)
	if l.Waits.Load() != 0 {
		l.Serve()
	}
	l.hooks.Freed()
}

// Yields counts an activation in Yielding, which tasks that wait may have to know.
func (l *Line) Yields() {
	l.Yielding.Add(1)
	l.hooks.Freed()
}

// RetakeCPU takes n thousandths, also where that leaves less than none.
func (l *Line) RetakeCPU(n int64) { l.ledger.CPU.Add(-n) }

// Push grants w what n asks for, now or after older work.
func (l *Line) Push(n Need, w Work) {
	queued, _ := l.hooks.Queue()
	l.mu.Lock()
	l.enter(&n, w, claim{work: w, queued: queued, since: l.hooks.Now()})
	l.mu.Unlock()
	l.Serve()
}

// Serve grants all work what is free for it, in order.
func (l *Line) Serve() {
	for {
		w, h, changed := l.next()
		if w == nil {
			if changed && l.hooks.Changed != nil {
				l.hooks.Changed()
			}
			if l.short != nil && l.Waits.Load() != 0 {
				l.short()
			}
			return
		}
		w.Grant(h)
		if h != nil {
			l.told(&h.need)
		}
	}
}

// next takes the first work in order whose need is free. What work before it lacks is kept from it where it is of
// another shape, or a stream of small needs would starve a large one.
func (l *Line) next() (w Work, h *Hold, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, false
	}
	var owed, lacks owed
	now, look := l.hooks.Now(), int64(0)
	for _, s := range l.ordered() {
		w = s.claims[0].work
		if !w.Over() {
			if owed.keeps(&s.need) {
				continue
			}
			if s.need.CPU > 0 {
				if above, _ := l.hooks.Above(s.standing(&s.claims[0], now)); above {
					owed.CPU, lacks.CPU = true, true
					continue
				}
			}
			taken, short := l.ledger.takeOf(s.need, nil, &owed)
			if !short.Empty() {
				keeps, until := l.keepsFor(s, now)
				lacks.add(&l.ledger, &s.need, &short)
				if keeps {
					owed.add(&l.ledger, &s.need, &short)
				}
				if until != 0 && (look == 0 || until < look) {
					look = until
				}
				continue
			}
			if !w.Begins(&s.need) {
				l.ledger.Return(taken)
				continue
			}
			h = &taken
			if k, ok := w.(Keeper); ok && k.Keeps() {
				l.stays(h)
			}
			if l.node != nil || !s.need.IsCPU(0) {
				h.since, l.running[h] = now, w
			}
			if cpu := l.asCPU(&s.need); s.job != nil && cpu > 0 {
				h.charge = new(Charge) // its own: a Hold is copied
				l.shares.Begin(h.charge, s.job, cpu, now)
			}
			switch {
			case l.node != nil:
				h.line, h.pool = l, l
			case s.job != nil && s.need.CPU > 0:
				h.pool = (*jobCPU)(l)
				l.held.Add(s.need.CPU)
				l.ofJobs.Add(s.need.CPU)
			case !s.need.IsCPU(s.need.CPU) || s.need.CPU > 0 && !yields(w):
				h.pool = (*heldCPU)(l)
				l.held.Add(s.need.CPU)
			}
			l.changed(&s.need)
			s.turn = now
		}
		l.pop(s)
		return w, h, false
	}
	l.look(look, now)
	l.lacks = lacks
	l.lackCPU.Store(lacks.CPU)
	return nil, nil, l.owe(owed)
}

// HasNow reports whether n is free, and nothing that waits is short of it.
func (l *Line) HasNow(n Need) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.owed
	if len(l.shapes) == 0 {
		o = new(owed)
	}
	return !o.keeps(&n) && l.ledger.lacksOnlyCPU(&n, o) && n.CPU <= max(l.ledger.CPU.Load(), 0)
}

// Return gives h back, once, and starts what waited for it.
func (l *Line) Return(h *Hold) {
	l = l.Of(h)
	if h.charge != nil {
		l.shares.End(h.charge, l.hooks.Now())
	}
	l.mu.Lock()
	delete(l.running, h)
	l.returns(h)
	l.ledger.Return(Hold{need: h.withoutCPU(), devices: h.devices})
	l.changed(&h.need)
	l.mu.Unlock()
	if h.pool != nil {
		h.pool.GiveCPU(h.need.CPU)
	} else {
		l.GiveCPU(h.need.CPU)
	}
	l.told(&h.need)
}

// told calls Hooks.Changed if n is something of the node, or of a bundle.
func (l *Line) told(n *Need) {
	if l.hooks.Changed != nil && (l.node != nil || !n.IsCPU(0)) {
		l.hooks.Changed()
	}
}
