package taskengine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// order chooses the task of one CPU that is next, where tasks of several jobs, or of several classes, wait (ADR 0039).
//
//	of the jobs that have tasks waiting     that with the least use of CPUs for its weight
//	of its tasks                            those of the highest class; one that has waited rises by a class for each core.AgeStep
//	of these                                the oldest
//
// Where all are of one job and Normal it has nothing to do: mixed is false, and the queues take no lock.
type order struct {
	now   func() int64
	mixed atomic.Bool

	mu    sync.Mutex // guards the rest, and what runQueue says
	jobs  map[*core.Job]*usage
	all   []*runQueue
	until int64 // mixed stays so long, when there is no reason for it any more
}

// usage is what a job has had of the CPUs while others waited for them too.
type usage struct {
	used int64 // nanoseconds of a CPU, by weight
	mean int64 // nanoseconds that its tasks have taken lately
	seen int64 // when it last had a task waiting
}

const (
	// mixedFor is how long order goes on when tasks of one job alone wait: the use of a job that is alone for a moment, until another's next tasks arrive, counts.
	mixedFor = 100 * time.Millisecond
	// maxCredit is the use of CPUs that a job can be behind the others when it comes, or comes back: what it did not ask for before
	// it does not get later.
	maxCredit = 100 * time.Millisecond
	// firstMean is taken for the length of a job's tasks before one was measured.
	firstMean = time.Millisecond
	// maxUsages bounds the jobs that are remembered.
	maxUsages = 256
	// unitWeight is by how much use is multiplied before it is divided by a weight.
	unitWeight = 64
)

// nobody is the resident of a queue whose next task comes to push. A task that was on its way to fifo may be there.
var nobody = &core.Job{}

// push puts a task where it belongs.
func (o *order) push(q *runQueue, c *core.Future) {
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

// giveBack puts back a task that was popped. When it came is not known: before the first of its job and class that waits.
func (o *order) giveBack(q *runQueue, c *core.Future) {
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

func (o *order) mix(now int64) {
	o.until = now + int64(mixedFor)
	o.mixed.Store(true)
}

// choice is the first task of a lane, or of fifo.
type choice struct {
	q     *runQueue
	lane  int // -1 for fifo
	job   *core.Job
	class core.Class
	since int64
}

// pop takes the task that is next in one of two queues, the second of which may be nil. charge is for ran.
func (o *order) pop(a, b *runQueue) (c *core.Future, from *runQueue, charge *charge) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for c == nil {
		best, several := o.choose(a, b, now)
		if best.q == nil {
			o.unmix(now)
			return nil, nil, nil
		}
		if several {
			o.until = now + int64(mixedFor)
		}
		if from = best.q; best.lane < 0 {
			c = from.fifo.Pop()
		} else {
			c = from.popLane(best.lane, 0)
		}
	}
	o.unmix(now)
	return c, from, o.take(c.Up().Job(), now)
}

// choose returns the next task; several says that there are others than it of another job or class.
func (o *order) choose(a, b *runQueue, now int64) (best choice, several bool) {
	var least int64
	look := func(h choice) {
		used := o.usageOf(h.job, now).used
		h.class = h.class.Risen(time.Duration(now - h.since))
		if best.q == nil {
			best, least = h, used
			return
		}
		several = several || h.job != best.job || h.class != best.class
		switch {
		case h.job != best.job && used != least:
			if used > least {
				return
			}
		case h.class != best.class:
			if h.class < best.class {
				return
			}
		case h.since >= best.since:
			return
		}
		best, least = h, used
	}
	for _, q := range []*runQueue{a, b} {
		if q == nil {
			continue
		}
		for i, l := range q.lanes {
			look(choice{q, i, l.job, l.class, l.tasks[0].since})
		}
		if j := q.resident.Load(); j != nil && !q.fifo.Empty() {
			look(choice{q, -1, j, core.Normal, q.since(now)})
		}
	}
	return best, several
}

// above reports whether a task waits in a lane that is of a higher class.
func (o *order) above(class core.Class) bool { return o.aboveIn(class, o.all...) }

// aboveIn is above for some of the queues.
func (o *order) aboveIn(class core.Class, queues ...*runQueue) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	for _, q := range queues {
		for _, l := range q.lanes {
			if l.class.Risen(time.Duration(now-l.tasks[0].since)) > class {
				return true
			}
		}
	}
	return false
}

// unmix ends mixed when nothing but tasks of one job and of class Normal has waited for a moment.
func (o *order) unmix(now int64) {
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

// usageOf returns that of a job. One that has been away is not far behind those that were here.
func (o *order) usageOf(j *core.Job, now int64) *usage {
	u := o.jobs[j]
	if u != nil && now-u.seen < int64(mixedFor) {
		u.seen = now
		return u
	}
	least, known := int64(0), false
	for k, v := range o.jobs {
		if k != j && now-v.seen < int64(mixedFor) && (!known || v.used < least) {
			least, known = v.used, true
		}
	}
	if u == nil {
		if o.jobs == nil || len(o.jobs) >= maxUsages {
			o.jobs = map[*core.Job]*usage{}
		}
		u = &usage{used: least, mean: int64(firstMean)}
		o.jobs[j] = u
	}
	if known {
		u.used = max(u.used, least-weighed(int64(maxCredit), j))
	}
	u.seen = now
	return u
}

// weighed is so much use of a CPU by a job, by its weight.
func weighed(ns int64, j *core.Job) int64 { return ns * unitWeight / int64(max(j.Weight, 1)) }

// charge is what a task was counted for before it ran.
type charge struct {
	job   *core.Job
	mean  int64
	began int64
}

// take counts a task that begins for as long as its job's tasks take.
func (o *order) take(j *core.Job, now int64) *charge {
	u := o.usageOf(j, now)
	u.used += weighed(u.mean, j)
	return &charge{j, u.mean, now}
}

// ran corrects that when the task has returned. The time in which it waited for others and had given its CPU back counts, too.
func (o *order) ran(c *charge) {
	if c == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if u := o.jobs[c.job]; u != nil {
		took := o.now() - c.began
		u.used += weighed(took-c.mean, c.job)
		u.mean = max(u.mean+(took-u.mean)/4, 1)
	}
}
