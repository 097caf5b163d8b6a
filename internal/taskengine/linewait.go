package taskengine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/ledger"
)

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

// wait is the estimated wait of the line, in which so many tasks wait now.
func (m *shapedMeans) wait(waits int) time.Duration {
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
