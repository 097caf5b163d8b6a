package runqueue

import (
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/queue"
)

// Queue is tasks of one CPU that wait. They begin in the order in which they came while all are of class Normal and of one job:
// then they are in fifo, which takes no lock. Any other waits in a lane, and order decides.
type Queue struct {
	fifo     *queue.Queue[core.Future]
	order    *Order
	resident atomic.Pointer[core.Job] // whose Normal tasks go to fifo; a few of another job may be there
	inLanes  atomic.Int64
	unqueued *atomic.Int64 // counts what is in lanes, too; nil for tasks of other nodes

	// Guarded by order.mu.
	lanes []*lane // that have tasks
	taken uint64  // out of lanes, so far
	marks []mark
}

// lane is the tasks of one job and one class, oldest first. Those that were given back have a lane of their own.
type lane struct {
	job       *core.Job
	class     core.Class
	givenBack bool
	tasks     []waitingTask
}

type waitingTask struct {
	future *core.Future
	since  int64
}

// mark says how many tasks had been pushed to fifo at some time.
type mark struct {
	pushed uint64
	at     int64
}

// New returns a queue of the order. What waits in lanes is counted in unqueued, too, which is nil for tasks of other nodes.
func New(o *Order, unqueued *atomic.Int64) *Queue {
	q := &Queue{fifo: queue.New[core.Future](), order: o, unqueued: unqueued}
	o.mu.Lock()
	o.all = append(o.all, q)
	o.mu.Unlock()
	return q
}

// Pushed is how many tasks have been pushed that are in no lane.
func (q *Queue) Pushed() uint64 { return q.fifo.Pushed() }

// Popped is how many of these have been popped.
func (q *Queue) Popped() uint64 { return q.fifo.Popped() }

// Task is a task that waits in a queue.
type Task struct {
	Future *core.Future
	Lane   int // the number of its lane; -1 where it is in none
	q      *Queue
	before uint64 // in no lane: so many were pushed before
	since  int64
}

// Since is about when the task came, and never before that; 0 where that is not known.
func (t *Task) Since() int64 {
	if t.Lane < 0 {
		return t.q.pushedBy(t.before)
	}
	return t.since
}

// Each shows the tasks that wait, lane for lane. It goes on with the next lane where f returns false. f does not call the queue.
func (q *Queue) Each(f func(t Task) bool) {
	q.order.mu.Lock()
	defer q.order.mu.Unlock()
	q.fifo.Each(func(before uint64, c *core.Future) bool {
		return f(Task{Future: c, Lane: -1, q: q, before: before})
	})
	for i, l := range q.lanes {
		for _, t := range l.tasks {
			if !f(Task{Future: t.future, Lane: i, since: t.since}) {
				break
			}
		}
	}
}

// Push appends a task.
func (q *Queue) Push(c *core.Future) {
	if c.Class() == core.Normal && c.Up().Job() == q.resident.Load() {
		q.fifo.Push(c)
		return
	}
	q.order.push(q, c)
}

// Return puts back a task that has been popped, before those of its job and class; false where that is not needed: all tasks that wait
// are alike.
func (q *Queue) Return(c *core.Future) bool {
	if c.Class() == core.Normal && !q.order.mixed.Load() {
		return false
	}
	q.order.GiveBack(q, c)
	return true
}

// Pop removes the task that is next in this queue, nil when there is none.
func (q *Queue) Pop() *core.Future {
	if !q.order.mixed.Load() {
		return q.fifo.Pop()
	}
	c, _ := q.order.Pop(q, nil, nil)
	return c
}

// PopLate takes a task that would begin late: the youngest of the job and class of which the most wait. It counts as no use of a CPU.
func (q *Queue) PopLate() *core.Future {
	q.order.mu.Lock()
	defer q.order.mu.Unlock()
	most, lane := int(q.fifo.Pushed()-q.fifo.Popped()), -1
	for i, l := range q.lanes {
		if len(l.tasks) > most {
			most, lane = len(l.tasks), i
		}
	}
	if lane < 0 {
		return q.fifo.Pop() // which has no other end
	}
	l := q.lanes[lane]
	return q.popLane(lane, len(l.tasks)-1)
}

// Others reports whether fifo has tasks of other jobs than j, which may be nil for work of none.
func (q *Queue) Others(j *core.Job) bool {
	r := q.resident.Load()
	return j != nil && r != nil && r != j && r != nobody && !q.fifo.Empty()
}

// Empty reports whether Pop would have found nothing just now.
func (q *Queue) Empty() bool { return q.fifo.Empty() && q.inLanes.Load() == 0 }

// Len is how many tasks wait; it may count some that were started in place.
func (q *Queue) Len() int {
	// Two that pop at once may take one place more than was pushed.
	return max(int(q.fifo.Pushed()-q.fifo.Popped()), 0) + int(q.inLanes.Load())
}

// Begun is how many tasks have been popped.
func (q *Queue) Begun() uint64 {
	q.order.mu.Lock()
	defer q.order.mu.Unlock()
	return q.fifo.Popped() + q.taken
}

// laneOf returns the lane of a job and a class, nil where there is none.
func (q *Queue) laneOf(j *core.Job, class core.Class, givenBack bool) *lane {
	for _, l := range q.lanes {
		if l.job == j && l.class == class && l.givenBack == givenBack {
			return l
		}
	}
	return nil
}

// append appends a task to its lane, which it makes where there is none.
func (q *Queue) append(j *core.Job, class core.Class, givenBack bool, t waitingTask) {
	l := q.laneOf(j, class, givenBack)
	if l == nil {
		l = &lane{job: j, class: class, givenBack: givenBack}
		q.lanes = append(q.lanes, l)
	}
	l.tasks = append(l.tasks, t)
	q.inLanes.Add(1)
	if q.unqueued != nil {
		q.unqueued.Add(1)
	}
}

// popLane takes the k-th oldest task of lane i: the first, or the last.
func (q *Queue) popLane(i, k int) *core.Future {
	l := q.lanes[i]
	c := l.tasks[k].future
	l.tasks[k] = waitingTask{}
	if k == 0 {
		l.tasks = l.tasks[1:]
	} else {
		l.tasks = l.tasks[:k]
	}
	if len(l.tasks) == 0 {
		last := len(q.lanes) - 1
		q.lanes[i], q.lanes[last] = q.lanes[last], nil
		q.lanes = q.lanes[:last]
	}
	q.taken++
	q.inLanes.Add(-1)
	if q.unqueued != nil {
		q.unqueued.Add(-1)
	}
	return c
}

// maxMarks bounds the marks: they are core.AgeStep / 8 apart, so that those of three steps are kept.
const maxMarks = 24

// since is about when the first task of fifo was pushed, and never before that: what is in fifo has no time of its own.
func (q *Queue) since(now int64) int64 {
	q.mark(now)
	return q.marks[0].at
}

// pushedBy is about when the task of fifo was pushed before which there were so many, and never before that; 0 where that is not
// known.
func (q *Queue) pushedBy(before uint64) int64 {
	for _, m := range q.marks {
		if m.pushed > before {
			return m.at
		}
	}
	return 0
}

// mark notes how many tasks have been pushed by now, unless that was noted a moment ago.
func (q *Queue) mark(now int64) {
	popped := q.fifo.Popped()
	for len(q.marks) > 0 && q.marks[0].pushed <= popped {
		q.marks = q.marks[1:]
	}
	if n := len(q.marks); n == 0 || now-q.marks[n-1].at >= int64(core.AgeStep)/8 {
		if n == maxMarks { // the first is older than all steps
			q.marks = append(q.marks[:1], q.marks[2:]...)
		}
		q.marks = append(q.marks, mark{q.fifo.Pushed(), now})
	}
}
