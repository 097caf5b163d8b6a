package runqueue

import (
	"cmp"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// Order chooses the task of one CPU that is next, where tasks of several jobs, or of several classes, wait (ADR 0039, 0055).
//
//	of the jobs that have tasks waiting     that with the least use of the node for its weight
//	of its tasks                            those of the highest class; one that has waited rises by a class for each core.AgeStep
//	of these                                the oldest
//
// Where all are of one job and Normal it has nothing to do: mixed is false, and the queues take no lock. Work of another job that waits for CPU in
// the line counts as tasks of several jobs do.
type Order struct {
	now    func() int64
	shares *ledger.Shares
	mixed  atomic.Bool

	mu    sync.Mutex // guards the rest, and what Queue says
	all   []*Queue
	until int64 // mixed stays so long, when there is no reason for it any more
}

// Init has the order go by the use that jobs have of the node. It is called before the first task comes.
func (o *Order) Init(now func() int64, shares *ledger.Shares) { o.now, o.shares = now, shares }

// Mixed reports whether the order decides what is next: tasks of several jobs or classes wait, or did a moment ago.
func (o *Order) Mixed() bool { return o.mixed.Load() }

// Tick is called some times a second: what waits in a queue has no time of its own, and is known to be older than a tick.
func (o *Order) Tick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.all {
		if !q.fifo.Empty() {
			q.mark(o.now())
		}
	}
}

// nobody is the resident of a queue whose next task comes to push. A task that was on its way to fifo may be there.
var nobody = &core.Job{}

// push puts a task where it belongs.
func (o *Order) push(q *Queue, c *core.Future) {
	j, class, now := c.Up().Job(), c.Class(), o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if class == core.Normal && q.fifo.Empty() { // what is left in a lane of the job is older, and goes first
		q.resident.Store(j)
		q.marks = nil
		q.fifo.Push(c)
		for _, other := range o.all {
			switch r := other.resident.Load(); {
			case r == nil || r == j:
			case other.Empty():
				other.resident.Store(nobody) // its next task comes here
			default:
				o.mix(now)
			}
		}
		return
	}
	q.append(j, class, false, waitingTask{c, now})
	o.mix(now)
}

// GiveBack puts back a task that was popped. When it came is not known: before the first of its job and class that waits.
func (o *Order) GiveBack(q *Queue, c *core.Future) {
	j, class, now := c.Up().Job(), c.Class(), o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	since := now
	if l := q.laneOf(j, class, false); l != nil {
		since = l.tasks[0].since - 1
	} else if class == core.Normal && q.resident.Load() == j && !q.fifo.Empty() {
		since = q.since(now) - 1
	}
	q.append(j, class, true, waitingTask{c, since})
	o.mix(now)
}

func (o *Order) mix(now int64) {
	o.until = now + int64(ledger.SeenFor)
	o.mixed.Store(true)
}

// choice is the first task of a lane, or of fifo.
type choice struct {
	q     *Queue
	lane  int // -1 for fifo
	job   *core.Job
	class core.Class
	since int64
}

// Pop takes the task that is next in one of two queues, the second of which may be nil, and counts it as use of a CPU: by charge, or
// for good where that is nil.
func (o *Order) Pop(a, b *Queue, charge *ledger.Charge) (c *core.Future, from *Queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for c == nil {
		best, several := o.choose(a, b, now)
		if best.q == nil {
			o.unmix(now)
			return nil, nil
		}
		if several {
			o.until = now + int64(ledger.SeenFor)
		}
		if from = best.q; best.lane < 0 {
			c = from.fifo.Pop()
		} else {
			c = from.popLane(best.lane, 0)
		}
	}
	o.unmix(now)
	if j := c.Up().Job(); charge != nil {
		o.shares.Begin(charge, j, ledger.Unit, now)
	} else {
		o.shares.Count(j, ledger.Unit, now)
	}
	return c, from
}

// choose returns the next task; several says that there are others than it of another job or class.
func (o *Order) choose(a, b *Queue, now int64) (best choice, several bool) {
	var least int64
	for h := range heads(now, a, b) {
		used := o.shares.Used(h.job, h.since, now)
		if best.q == nil {
			best, least = h, used
			continue
		}
		several = several || h.job != best.job || h.class != best.class
		switch {
		case h.job != best.job && used != least:
			if used > least {
				continue
			}
		case h.class != best.class:
			if h.class < best.class {
				continue
			}
		case h.since >= best.since:
			continue
		}
		best, least = h, used
	}
	return best, several
}

// heads is the first task of each lane and of each fifo, with its class risen. A queue may be nil.
func heads(now int64, queues ...*Queue) iter.Seq[choice] {
	return func(yield func(choice) bool) {
		risen := func(h choice) choice {
			h.class = h.class.Risen(time.Duration(now - h.since))
			return h
		}
		for _, q := range queues {
			if q == nil {
				continue
			}
			for i, l := range q.lanes {
				if !yield(risen(choice{q, i, l.job, l.class, l.tasks[0].since})) {
					return
				}
			}
			if j := q.resident.Load(); j != nil && !q.fifo.Empty() && !yield(risen(choice{q, -1, j, core.Normal, q.since(now)})) {
				return
			}
		}
	}
}

// Above reports whether a task waits in a lane that is of a higher class.
func (o *Order) Above(class core.Class) bool { return o.AboveIn(class, o.all...) }

// AboveIn is Above for some of the queues.
func (o *Order) AboveIn(class core.Class, queues ...*Queue) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for h := range heads(o.now(), queues...) {
		if h.lane >= 0 && h.class > class {
			return true
		}
	}
	return false
}

// See notes which jobs have tasks waiting. Of what is given back and sent again no task waits for long, though some always do.
func (o *Order) See() {
	if !o.mixed.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for h := range heads(now, o.all...) {
		o.shares.Used(h.job, h.since, now)
	}
}

// AboveLine is ledger.Hooks.Above: of several jobs the use says what goes first, else the class does. Where work of one job meets tasks of another it
// mixes them, so that the use of the tasks counts.
func (o *Order) AboveLine(w ledger.Standing) (above, less bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	one, several := w.Job, false
	for h := range heads(now, o.all...) {
		several = several || one != nil && h.job != one
		one = cmp.Or(one, h.job)
	}
	if w.Job != nil && several {
		o.mix(now)
	}
	less = several
	for h := range heads(now, o.all...) {
		if several && h.job != w.Job {
			if by := cmp.Compare(o.shares.Used(h.job, h.since, now), w.Used(o.shares, now)); by != 0 {
				above = above || by < 0
				continue
			}
		}
		less = less && h.job != w.Job
		above = above || h.lane >= 0 && h.class > w.Class
	}
	return above, less
}

// unmix ends mixed when nothing but tasks of one job and of class Normal has waited for a moment.
func (o *Order) unmix(now int64) {
	var one *core.Job
	for _, q := range o.all {
		if len(q.lanes) > 0 {
			return
		}
		if q.fifo.Empty() {
			continue
		}
		if j := q.resident.Load(); one == nil {
			one = j
		} else if j != one {
			return
		}
	}
	if now < o.until {
		return
	}
	for _, q := range o.all {
		if q.fifo.Empty() {
			q.resident.Store(nobody) // the next task comes to push, which looks at the other queue
		}
	}
	o.mixed.Store(false)
}
