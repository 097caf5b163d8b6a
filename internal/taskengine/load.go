package taskengine

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// Load says how busy a node is with tasks. Nodes tell each other: with results, and whenever system sends one.
type Load struct {
	Queued   int           // its own tasks that wait to start
	Inbound  int           // tasks of other nodes that it has accepted and not answered, waiting or running
	Busy     float64       // CPUs that run its own tasks
	Free     float64       // CPUs that nothing holds
	Mean     time.Duration // how long a task has held a CPU lately; 0 while that is not known
	Draining bool          // it takes no more tasks of others
	// Bandwidth is how fast large values have come to it lately, in bytes per second; 0 while that is not known.
	Bandwidth int64
	// Rest is what is free of all but CPU, for ReadRest; "" when all of it is.
	Rest string
	// Shaped is the tasks that wait in the node's line, of it and of others, all of which Queued counts; InboundShaped those of
	// Inbound that ask for other than one CPU. They are not in the way of tasks of one CPU.
	Shaped, InboundShaped int
	// Held is the CPUs of Busy that work has which asks for other than one CPU, and that bundles have.
	Held float64
	// Line is the estimated wait of work that asks for other than one CPU and finds it taken: for what runs and waits in the node's
	// line. 0 where there is nothing.
	Line time.Duration
	// Parked is the tasks of Inbound that began, wait for others, and have given back their one CPU. What they wait for may have no node
	// yet: they are not in the way of other tasks.
	Parked int
	// Shared is the CPUs of Held that tasks have while more of that kind wait for CPUs: tasks of one CPU of another job get their part of them.
	Shared float64
}

// Load returns how busy this node is.
func (e *Engine) Load() Load {
	l := Load{Shaped: int(e.shaped.Load()), Free: max(e.FreeCPU(), 0), Draining: e.closed.Load() || e.draining.Load()}
	l.Queued = e.Queued() + l.Shaped
	l.Held = float64(max(e.line.Held(), 0)) / oneCPU
	l.Shared = float64(min(e.line.Shared(), max(e.line.Held(), 0))) / oneCPU
	l.Rest = e.line.Report(encodeRest)
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

// Free returns the resources of this node that no task holds.
func (e *Engine) Free() raysys.Resources {
	free := e.line.Free()
	for _, d := range e.line.Spares() {
		free.GPU += d.Share
	}
	return raysys.Resources(free.Resources())
}

// Flags of a load. Most loads have none of these parts, and go with results.
const (
	loadDraining  = 1 << iota
	loadBandwidth // Bandwidth follows
	loadRest      // Rest follows
	loadShaped    // then all that is of work that asks for other than one CPU, and Parked
)

// AppendLoad appends l with its length, so that fields may be added behind.
func AppendLoad(dst []byte, l Load) []byte {
	var b [64]byte
	body := wire.AppendUvarint(b[:0], uint64(max(l.Queued, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Inbound, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Busy*oneCPU, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Free*oneCPU, 0)))
	body = wire.AppendUvarint(body, uint64(max(l.Mean, 0)))
	flags := byte(0)
	if l.Draining {
		flags = loadDraining
	}
	if l.Bandwidth > 0 {
		flags |= loadBandwidth
	}
	if l.Rest != "" {
		flags |= loadRest
	}
	if l.Shaped > 0 || l.InboundShaped > 0 || l.Held > 0 || l.Line > 0 || l.Parked > 0 || l.Shared > 0 {
		flags |= loadShaped
	}
	body = append(body, flags)
	if flags&loadBandwidth != 0 {
		body = wire.AppendUvarint(body, uint64(l.Bandwidth))
	}
	if flags&loadRest != 0 {
		body = wire.AppendBytes(body, l.Rest)
	}
	if flags&loadShaped != 0 {
		body = wire.AppendUvarint(body, uint64(max(l.Shaped, 0)))
		body = wire.AppendUvarint(body, uint64(max(l.InboundShaped, 0)))
		body = wire.AppendUvarint(body, uint64(max(ledger.Thousandths(l.Held), 0)))
		body = wire.AppendUvarint(body, uint64(max(l.Line, 0)))
		body = wire.AppendUvarint(body, uint64(max(l.Parked, 0)))
		body = wire.AppendUvarint(body, uint64(max(ledger.Thousandths(l.Shared), 0)))
	}
	return wire.AppendBytes(dst, body)
}

// maxCount bounds the counts and CPUs another node may claim, so that sums of them cannot overflow.
const maxCount = 1 << 40

// maxLine is the same for the wait of a line: some hundred days.
const maxLine = 1 << 53

// ReadLoad reads what AppendLoad wrote.
func ReadLoad(r *wire.Reader) (Load, error) {
	body := wire.NewReader(r.Bytes())
	l := Load{
		Queued:  int(min(body.Uvarint(), maxCount)),
		Inbound: int(min(body.Uvarint(), maxCount)),
		Busy:    float64(min(body.Uvarint(), maxCount)) / oneCPU,
		Free:    float64(min(body.Uvarint(), maxCount)) / oneCPU,
		Mean:    time.Duration(min(body.Uvarint(), uint64(time.Hour))),
	}
	flags := body.Byte()
	l.Draining = flags&loadDraining != 0
	if flags&loadBandwidth != 0 {
		l.Bandwidth = int64(min(body.Uvarint(), maxCount))
	}
	if flags&loadRest != 0 {
		l.Rest = body.String()
		if _, err := ReadRest(l.Rest); err != nil {
			return Load{}, err
		}
	}
	if flags&loadShaped != 0 {
		l.Shaped = int(min(body.Uvarint(), uint64(l.Queued)))
		l.InboundShaped = int(min(body.Uvarint(), uint64(l.Inbound)))
		l.Held = float64(min(body.Uvarint(), maxCount)) / oneCPU
		l.Line = time.Duration(min(body.Uvarint(), maxLine))
		l.Parked = int(min(body.Uvarint(), uint64(l.Inbound-l.InboundShaped)))
		l.Shared = min(float64(min(body.Uvarint(), maxCount))/oneCPU, l.Held)
	}
	if err := r.Err(); err != nil {
		return Load{}, err
	}
	return l, body.Err()
}

// meter learns how long tasks hold a CPU. Each worker has one; the clock is read around groups of tasks, since reading
// it around each would cost as much as a small task does.
type meter struct {
	began int64 // 0 while the worker has nothing to do
	ran   int64
	group int64
}

const (
	// A group of tasks is measured as one: as many as take groupTime, so that short tasks share a reading and a change
	// to long ones is seen after the first of them at most maxGroup tasks later.
	groupTime = int64(50 * time.Microsecond)
	maxGroup  = 16
)

// take is called when the worker begins a task.
func (m *meter) take(x *exchange) {
	if m.began == 0 {
		m.began, m.ran, m.group = max(x.rt.Now(), 1), 0, 1
	}
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
func (m *meter) tick(x *exchange, s *core.CPUSlot, c *core.Future) {
	if s.Waited.Load() {
		s.Waited.Store(false)
		m.began, m.ran, m.group = max(x.rt.Now(), 1), 0, 1
		return
	}
	if m.ran++; m.ran < m.group || m.began == 0 {
		return
	}
	now := max(x.rt.Now(), 1)
	mean := max((now-m.began)/m.ran, 1)
	if t, ok := c.Work().(entered); ok {
		x.means.learn(mean, t.entry())
	}
	m.began, m.ran = now, 0
	m.group = min(max(groupTime/mean, 1), maxGroup)
}
