package taskengine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/runqueue"
)

// means is how long tasks hold a CPU of this node. What waits here is weighed by its functions: a node where one task of a
// second waits is not as near to being idle as one where ten tasks of a millisecond do.
type means struct {
	all    atomic.Int64 // of the tasks that have run lately, of whatever function; nanoseconds, 0 while that is not known
	of     sync.Map     // *core.Entry -> *atomic.Int64: the same of the tasks of one function
	queued atomic.Int64 // of what waited at the last weigh; 0 when nothing did
	slow   atomic.Int64 // what those that run now take at least; 0 once one of them has returned
	shaped shapedMeans
}

// maxWeighed is how many tasks of a queue are looked at, the first: those are next.
const maxWeighed = 128

// mean is what Load reports.
func (m *means) mean() time.Duration {
	if queued := m.queued.Load(); queued != 0 {
		return time.Duration(max(queued, m.slow.Load()))
	}
	return time.Duration(m.all.Load())
}

// learn mixes the measurement of a group of tasks into the means. The last of them was of the function; short ones that were
// measured with it may have been of others.
func (m *means) learn(mean int64, entry *core.Entry) {
	mix(&m.all, mean)
	if m.slow.Load() != 0 {
		m.slow.Store(0)
	}
	mixOf(&m.of, mean, entry)
}

func mix(into *atomic.Int64, mean int64) {
	into.Store(int64(forwarding.Learn(time.Duration(into.Load()), time.Duration(mean))))
}

// mixOf is mix into what a map has of a function.
func mixOf(into *sync.Map, mean int64, entry *core.Entry) {
	of, ok := into.Load(entry)
	if !ok {
		of, _ = into.LoadOrStore(entry, new(atomic.Int64))
	}
	mix(of.(*atomic.Int64), mean)
}

// slower notes that tasks take longer than was known.
func (m *means) slower(mean int64) {
	m.all.Store(max(m.all.Load(), mean))
	m.slow.Store(mean)
}

// weigh looks at what waits in the queues.
func (m *means) weigh(queues ...*runqueue.Queue) {
	var sum, count int64
	for _, q := range queues {
		weight, looked, waits := int64(0), int64(0), int64(q.Len())
		lane, ofLane := -1, 0
		q.Each(func(w runqueue.Task) bool {
			if w.Lane != lane {
				lane, ofLane = w.Lane, 0
			}
			weight += m.ofWork(w.Future.Work())
			looked++
			ofLane++
			return ofLane < maxWeighed
		})
		if looked > 0 {
			sum += weight / looked * waits
			count += waits
		}
	}
	if count == 0 {
		m.queued.Store(0)
		return
	}
	m.queued.Store(sum / count)
}

// ofWork is the mean of a task's function; that of all where none was measured.
func (m *means) ofWork(w core.Work) int64 {
	if t, ok := w.(entered); ok {
		if of, ok := m.of.Load(t.entry()); ok {
			return of.(*atomic.Int64).Load()
		}
	}
	return m.all.Load()
}

// entered is a task, or a batch.
type entered interface{ entry() *core.Entry }
