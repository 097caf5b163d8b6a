package taskengine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/runqueue"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskwire"
)

// meter learns how long tasks hold a CPU. Each worker has one; the clock is read around groups of tasks, since reading
// it around each would cost as much as a small task does.
type meter struct {
	began int64 // 0 while the worker has nothing to do
	ran   int64
	group int64
	skip  int64 // short tasks that no clock is read for, on a node without peers
}

const (
	// A group of tasks is measured as one: as many as take groupTime, so that short tasks share a reading and a change
	// to long ones is seen after the first of them at most maxGroup tasks later.
	groupTime = int64(50 * time.Microsecond)
	maxGroup  = 16
	// maxAlone is maxGroup of a node without peers, where nobody waits for the change.
	maxAlone = 64
)

// take is called when the worker begins a task.
func (m *meter) take(e *Engine, noted *tally.Slot) {
	if m.began != 0 {
		return
	}
	if m.skip > 0 && e.net.Load() == nil {
		m.skip--
		return
	}
	m.begin(max(e.now(), 1), 1, noted)
}

// begin begins a group of so many tasks.
func (m *meter) begin(now, group int64, noted *tally.Slot) {
	m.began, m.ran, m.group = now, 0, group
	noted.Group(now)
}

// rest is called when the worker has nothing to do: what has run of a group is one.
func (m *meter) rest(e *Engine, noted *tally.Slot) {
	if m.began != 0 && m.ran > 0 {
		noted.AddUp(e.now()-m.began, m.ran)
	}
	m.began = 0
	noted.Rest()
}

// tick is called when the task c, or one of the batch c, has returned on slot s. The time of a group in which a task waited says nothing of CPUs.
func (m *meter) tick(e *Engine, s *core.CPUSlot, noted *tally.Slot, c *core.Future) {
	if s.Waited.Load() {
		s.Waited.Store(false)
		now := max(e.now(), 1)
		if m.began != 0 {
			noted.AddUp(now-m.began, m.ran+1)
		}
		m.begin(now, 1, noted)
		return
	}
	if m.ran++; m.ran < m.group || m.began == 0 {
		return
	}
	now := max(e.now(), 1)
	mean, most := max((now-m.began)/m.ran, 1), int64(maxAlone)
	if x := e.net.Load(); x != nil {
		most = maxGroup
		if t, ok := c.Work().(entered); ok {
			x.means.learn(mean, t.entry())
		}
	}
	noted.AddUp(now-m.began, m.ran)
	m.begin(now, min(max(groupTime/mean, 1), most), noted)
	m.skip = min(m.group, maxGroup) - 1
}

// noted is one run while it is noted.
type noted struct {
	slot   *tally.Slot // nil for that of a grain
	of     *tally.Function
	group  bool         // it is counted on the slot, not by itself
	before *core.Future // what ran on the slot; of one that is counted by itself
	began  int64        // where it is timed by itself
	event  *tally.Event // where it is recorded
}

// recorded has the run recorded, if it is one of those that are.
func (n *noted) recorded(on *tally.Recorder, e *Engine, r *record) {
	if n.event = on.Take(n.slot.Counter()); n.event != nil {
		n.event.Begin(n.of, &r.Future, n.slot.Counter(), e.now())
	}
}

// begin notes that r runs, and is counted by itself.
func (n *noted) begin(e *Engine, r *record) {
	if n.slot != nil {
		n.before = n.slot.Begin(&r.Future)
	}
	if n.of.Timed(n.slot.Counter()) {
		n.began = e.now()
	}
}

// end notes that the run has ended, with err where it failed.
func (n *noted) end(e *Engine, r *record, o tally.Outcome, err error) {
	if o != tally.OK {
		o = count(n.of, r, o, err)
	}
	if n.event != nil {
		n.event.End(o, e.now())
	}
	if n.group {
		if o == tally.OK {
			n.slot.OK(n.of)
		} else {
			n.slot.Bad(n.of)
		}
		if n.began != 0 {
			n.slot.Sampled(n.of, e.now()-n.began)
		}
		return
	}
	if n.began != 0 {
		n.of.Sampled(e.now()-n.began, tally.Sample)
	}
	if n.slot != nil {
		n.slot.End(n.before)
	}
	if o == tally.OK {
		n.of.OK(n.slot.Counter())
	}
}

// shapedMeans is how long shaped tasks hold what they ask for, and what follows from that for the line. They are apart from the means
// of plain tasks, by which CPUs are given work: the same function may be quicker on a device.
type shapedMeans struct {
	of     sync.Map     // *core.Entry -> *atomic.Int64: nanoseconds
	line   atomic.Int64 // ledger.Line.Ahead, as it was at the last report
	waited atomic.Int64 // the tasks that waited in the line then
}

// learnShaped mixes in how long a task had what it asked for. Of a task that holds CPU alone and has waited that says nothing: it had
// given the CPU back.
func (m *means) learnShaped(c *core.Future, h *ledger.Hold, s *core.CPUSlot, now int64) {
	n := h.Need()
	if n.IsCPU(0) || h.Since() == 0 || n.IsCPU(n.CPU) && s.Waited.Load() {
		return
	}
	if t, ok := c.Work().(entered); ok {
		mixOf(&m.shaped.of, max(now-h.Since(), 1), t.entry())
	}
}

// weighLine estimates the wait of the line again.
func (m *means) weighLine(e *Engine) {
	waited := int64(e.shaped.Load())
	ahead := e.line.Ahead(&lineTimes{means: m, now: e.now()})
	m.shaped.line.Store(int64(forwarding.Coarse(ahead)))
	m.shaped.waited.Store(waited)
}

// estimateWait is the estimated wait of the line, in which so many tasks wait now.
func (m *shapedMeans) estimateWait(waits int) time.Duration {
	waited := m.waited.Load()
	return forwarding.LineWait(time.Duration(m.line.Load()), waited, int64(waits)-waited)
}

// lineTimes implements ledger.Times.
type lineTimes struct {
	*means
	now   int64
	least map[*core.Entry]int64 // for how long tasks have run of functions of which none has returned
}

// Runs implements ledger.Times. A task is on average half done; one that has run for longer goes on for as long as it has run. A grain
// that is idle gives back what it holds when it is asked; when another one does is not known.
func (t *lineTimes) Runs(w ledger.Work, since int64) (takes time.Duration, known bool) {
	entry, mean := t.meanOf(w)
	ran := max(t.now-since, 0)
	if y, ok := w.(ledger.Yielder); ok && entry == nil {
		if y.Idle() {
			return 0, true
		}
		return time.Duration(ran), false
	}
	if entry == nil {
		return 0, true
	}
	if mean == 0 {
		if t.least == nil {
			t.least = map[*core.Entry]int64{}
		}
		t.least[entry] = max(t.least[entry], ran)
	}
	return time.Duration(max(mean/2, ran-mean/2)), true
}

// Waits implements ledger.Times.
func (t *lineTimes) Waits(w ledger.Work) time.Duration {
	entry, mean := t.meanOf(w)
	if entry == nil || mean != 0 {
		return time.Duration(mean)
	}
	return max(time.Duration(t.least[entry]), unknownTask)
}

// unknownTask stands for the time of a task whose function is not known, as in package placement.
const unknownTask = time.Millisecond

// meanOf returns the function of a shaped task and its mean, 0 where none has returned; nil of other work.
func (t *lineTimes) meanOf(w ledger.Work) (entry *core.Entry, mean int64) {
	task, ok := w.(shaped)
	if !ok {
		return nil, 0
	}
	of, ok := task.Work().(entered)
	if !ok {
		return nil, 0
	}
	if known, ok := t.shaped.of.Load(of.entry()); ok {
		mean = known.(*atomic.Int64).Load()
	}
	return of.entry(), mean
}

// means is how long tasks hold a CPU of this node. What waits here is weighed by its functions: a node where one task of a
// second waits is not as near to being idle as one where ten tasks of a millisecond do.
type means struct {
	all    atomic.Int64 // of the tasks that have run lately, of whatever function; nanoseconds, 0 while that is not known
	of     sync.Map     // *core.Entry -> *atomic.Int64: the same of the tasks of one function
	ended  atomic.Int64 // measurements in all, up to cpus: see forwarding.Settled
	cpus   int64
	queued atomic.Int64 // of what waited at the last weigh; 0 when nothing did
	slow   atomic.Int64 // what those that run now take at least; 0 once one of them has returned
	shaped shapedMeans
}

// maxWeighed is how many tasks of a queue are looked at, the first: those are next.
const maxWeighed = 128

// mean is what Load reports.
func (m *means) mean() time.Duration {
	if !forwarding.Settled(m.ended.Load(), m.cpus) {
		return time.Duration(m.slow.Load())
	}
	if queued := m.queued.Load(); queued != 0 {
		return time.Duration(max(queued, m.slow.Load()))
	}
	return time.Duration(m.all.Load())
}

// learn mixes the measurement of a group of tasks into the means. The last of them was of the function; short ones that were
// measured with it may have been of others.
func (m *means) learn(mean int64, entry *core.Entry) {
	mix(&m.all, mean)
	if m.ended.Load() < m.cpus {
		m.ended.Add(1)
	}
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

// A report of what is free on a node (Load.Rest) does not count the tasks that are on their way there, and a node that submits many
// tasks at one moment would send all of them to the node whose report says that it has devices. So a node subtracts what it has sent
// and the report does not count. Each report says how many such tasks of the receiver it counts:
//
//	sender:   uncounted ◄── each task that it sends                      a report of n: all but the first n stay uncounted
//	receiver: received  ──► +1 with the change of the ledger, or where it was refused
//
// It concerns tasks that hold more than one CPU, and what they hold beyond that: how many tasks are on their way is counted beside
// (LoadOf). And by numbers of its own tasks that may be in any bundle of their group, for what is free in bundles (Rooms). All numbers are
// of one connection.

// uncounted is what the tasks hold, in the order in which they were sent, that no report of the peer counts.
type uncounted struct {
	needs   []ledger.Need
	counted uint64 // tasks before the first of needs
}

// counted reports whether a task with that need, as a frame says it, is one of these. What a single bundle has is not free.
func counted(h *taskwire.Head) bool {
	return h.Need != nil && (h.Need.Roams() || h.Need.Bundle.Group == "" && h.Need.Beyond())
}

func (u *uncounted) count(received uint64) bool {
	if received <= u.counted || len(u.needs) == 0 {
		return false
	}
	n := min(received-u.counted, uint64(len(u.needs)))
	u.needs, u.counted = u.needs[n:], u.counted+n
	return true
}

// What the search for cycles over nodes asks of tasks.
