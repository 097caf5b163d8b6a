package taskengine

import (
	"cmp"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/tally"
)

// Load returns how busy this node is.
func (e *Engine) Load() loadreport.Load {
	l := loadreport.Load{Shaped: int(e.shaped.Load()), Free: max(e.FreeCPU(), 0), Draining: e.closed.Load() || e.draining.Load()}
	l.Queued = e.Queued() + l.Shaped
	l.Held = float64(max(e.line.Held(), 0)) / oneCPU
	l.Shared = float64(min(e.line.Shared(), max(e.line.Held(), 0))) / oneCPU
	l.Rest = e.line.Report(loadreport.EncodeRest)
	if e.cfg.Bandwidth != nil {
		l.Bandwidth = e.cfg.Bandwidth()
	}
	if x := e.net.Load(); x != nil {
		l.Queued += int(x.deferred.count.Load())
		l.InboundShaped = int(max(x.unansweredShaped.Load(), 0))
		l.Inbound = int(x.unanswered.Load())
		l.Parked = int(min(max(x.parked.Load(), 0), max(x.unanswered.Load()-x.unansweredShaped.Load(), 0)))
		taken := e.line.Total() - e.line.CPU().Load()
		if e.searching.Load() != 0 { // a worker that looks for work holds a CPU, which counts as free
			taken -= oneCPU
			l.Free = min(l.Free+1, float64(e.line.Total())/oneCPU)
		}
		l.Busy = float64(max(taken-x.notOwn.Load()*oneCPU, 0)) / oneCPU
		if l.Inbound == 0 { // and so does one that answers the last
			l.Free = max(l.Free, float64(e.line.Total())/oneCPU-l.Busy)
		}
		if e.line.OwesCPU() {
			l.Free = 0
		}
		l.Mean = x.means.mean()
		l.Line = x.means.shaped.wait(l.Shaped)
	}
	return l
}

// rooms is ledger.Line.Rooms, for loadreport.ReadRooms; "" for none. It says of loadreport.MaxRooms bundles at most, of those first that have sick devices: where that is
// not known work would come, and be given back, again and again.
func (e *Engine) rooms() string {
	list := e.line.Rooms()
	if len(list) == 0 {
		return ""
	}
	slices.SortFunc(list, func(a, b ledger.Room) int {
		return cmp.Or(b.Sick()-a.Sick(), cmp.Compare(a.Bundle.Group, b.Bundle.Group), a.Bundle.Index-b.Bundle.Index)
	})
	return loadreport.EncodeRooms(list[:min(len(list), loadreport.MaxRooms)])
}

// Free returns the resources of this node that no task holds.
func (e *Engine) Free() raysys.Resources {
	free := e.line.Free()
	for _, d := range e.line.Spares() {
		free.GPU += d.Share
	}
	return raysys.Resources(free.Resources())
}

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

// serve records whether the CPU of s serves this node from now on.
func (x *exchange) serve(s *core.CPUSlot, own bool) {
	if s.NotOwn.Load() == !own || s.NotOwn.Swap(!own) == !own {
		return
	}
	if own {
		x.notOwn.Add(-1)
	} else {
		x.notOwn.Add(1)
	}
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
