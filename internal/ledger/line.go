package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

	mu sync.Mutex // guards the rest, and the ledger but for its CPU
	waitlist
	owed  owed // to those that wait; empty when none does
	lacks owed // by those that wait, also what is not kept for them now
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
	l.waitlist.l = l
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
			l.tellChanged(&h.need)
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
	l.arrangeLook(look, now)
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
	l.tellChanged(&h.need)
}

// tellChanged calls Hooks.Changed if n is something of the node, or of a bundle.
func (l *Line) tellChanged(n *Need) {
	if l.hooks.Changed != nil && (l.node != nil || !n.IsCPU(0)) {
		l.hooks.Changed()
	}
}

// Ahead estimates how long work would wait that is pushed now and finds what it asks for taken: for so long the node as a whole is
// at what runs, and at what waits here. A task that has one of four devices is a quarter of the node's work.
//
// What bundles have, and grains that are at work, is not there for others: the node is that much smaller. Where nothing is left of it
// others wait for as long as the last of those has had it, the best guess there is.
func (l *Line) Ahead(t Times) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := int64(0) // microseconds, for which the sums of a million of the longest do not overflow
	add := func(n *Need, takes time.Duration, count int) {
		sum += min(takes, maxTakes).Microseconds() * l.ledger.part(n, Unit) / Unit * int64(count)
	}
	var kept [2]int64 // of devices, of the rest
	last := maxTakes
	keep := func(n *Need, had time.Duration) {
		k := &kept[1]
		if n.GPU > 0 {
			k = &kept[0]
		}
		*k += l.ledger.part(n, Unit)
		last = min(last, had)
	}
	for h, w := range l.running {
		takes, known := t.Runs(w, h.since)
		if !known {
			keep(&h.need, takes)
			continue
		}
		add(&h.need, takes, 1)
	}
	for _, b := range l.bundles {
		keep(&b.hold.need, time.Duration(l.hooks.Now()-b.hold.since))
	}
	for _, s := range l.shapes {
		all, looked, waits := time.Duration(0), 0, 0
		for i := range s.claims[:min(len(s.claims), maxWeighed)] {
			if looked++; !s.claims[i].work.Over() {
				all += min(t.Waits(s.claims[i].work), maxTakes)
				waits++
			}
		}
		if waits > 0 {
			add(&s.need, all/time.Duration(waits), waits*len(s.claims)/looked)
		}
	}
	left := Unit - max(kept[0], kept[1])
	if left <= 0 {
		return max(time.Duration(min(sum, maxTakes.Microseconds()))*time.Microsecond, last)
	}
	return time.Duration(min(float64(sum)*Unit/float64(left)*float64(time.Microsecond), math.MaxInt64/2))
}

// Carve takes what the parts ask for out of what is free and not kept for work that waits, and returns their bundles; or none of it, with the part that has no
// room, and what is short for it. Nothing waits for it. A bundle that had the name before keeps what it has until it is closed, and
// gets no new work.
func (l *Line) Carve(parts ...Part) (list []*Bundle, without int, short Shortage) {
	l.mu.Lock()
	o := &l.owed
	if len(l.shapes) == 0 {
		o = new(owed)
	}
	holds, without, short := l.ledger.takeAll(parts, o)
	if !short.Empty() {
		l.mu.Unlock()
		for _, h := range holds {
			if h != nil {
				l.Return(h)
			}
		}
		return nil, without, short
	}
	for i, h := range holds {
		list = append(list, l.bundle(parts[i], *h))
	}
	l.mu.Unlock()
	if l.hooks.Changed != nil {
		l.hooks.Changed()
	}
	return list, -1, short
}

// bundle makes the bundle that has h. l.mu is held.
func (l *Line) bundle(p Part, h Hold) *Bundle {
	n := p.Need
	l.changed(&n)
	h.need.Bundle, h.pool = p.Name, (*heldCPU)(l) // so that its return is reported soon, of CPU alone too
	l.held.Add(n.CPU)
	h.since = l.hooks.Now()
	l.stays(&h)
	b := &Bundle{name: p.Name, hold: h}
	var list []Device
	for _, i := range h.devices {
		list = append(list, l.ledger.devices[i].Device.partOf(&n))
	}
	hooks := Hooks{Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: l.hooks.Now, Freed: b.freed, Above: func(Standing) (above, less bool) { return false, false }, Changed: b.changed, Later: l.hooks.Later}
	if choose := l.hooks.Choose; choose != nil {
		hooks.Choose = func(free []int, n int) (list []int) { // the bundle has numbers of its own for its devices
			for _, i := range free {
				list = append(list, h.devices[i])
			}
			list = choose(list, n)
			for k, i := range list {
				list[k] = slices.Index(h.devices, i)
			}
			return list
		}
	}
	b.Init(n, list, hooks)
	for k, i := range h.devices {
		b.ledger.devices[k].sick = l.ledger.devices[i].sick
		b.staying.devices[k].sick = l.ledger.devices[i].sick
	}
	b.node, b.short, b.shares = l, l.short, l.shares
	if l.bundles == nil {
		l.bundles = map[core.Bundle]*Bundle{}
	}
	l.bundles[p.Name] = b
	return b
}

// EverIn reports whether a bundle of this node has what n asks for once all that it has is given back; false where the bundle is not here.
func (l *Line) EverIn(name core.Bundle, n Need) (ever, here bool) {
	for _, b := range l.named(name) {
		short := b.Ever(n)
		return short.Empty(), true
	}
	return false, false
}

// Demand is what waits in the line and in those of its bundles, by the age of the oldest of each shape in each line. Work that is
// over is left out, and a Gathering, since its group waits elsewhere.
func (l *Line) Demand() (list []Demand) {
	list = l.demand("")
	for _, b := range l.all() {
		list = append(list, b.demand(b.name.Group)...)
	}
	return list
}

func (l *Line) demand(group string) (list []Demand) {
	if l.Waits.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shapes {
		d := Demand{Need: s.need, Group: group}
		for i := range s.claims {
			if c := &s.claims[i]; !c.work.Over() && !gathers(c.work) {
				if d.Count++; d.Count == 1 {
					d.Oldest = c.since
				}
			}
		}
		if d.Count > 0 {
			list = append(list, d)
		}
	}
	return list
}

// NewGathering makes a Gathering that waits for nothing yet. held is called without a lock when all of it is granted.
func (l *Line) NewGathering(name string, needs []Need, held func()) *Gathering {
	g := &Gathering{line: l, name: name, held: held, lacks: len(needs)}
	for _, n := range needs {
		g.parts = append(g.parts, &gatherer{Gathering: g, need: n})
	}
	return g
}

// dealAgain deals the devices of the holds out among the parts as Line.Carve does: they were granted one by one, of what was free.
func (l *Line) dealAgain(parts []Part, holds []*Hold) {
	only := owed{devices: slices.Repeat([]bool{true}, len(l.ledger.devices))}
	devices := slices.Clone(parts)
	for i, h := range holds {
		devices[i].Need = h.withoutCPU() // which is not free meanwhile: tasks of one CPU take it without the lock
		l.ledger.enter(&h.need, h.devices, +1)
		for _, d := range h.devices {
			only.devices[d] = false
		}
	}
	dealt, _, short := l.ledger.takeAll(devices, &only)
	if short.Empty() {
		for i, h := range holds {
			h.devices = dealt[i].devices
		}
		return
	}
	for _, h := range dealt { // it is greedy, and has missed the way there is: they keep what they had
		if h != nil {
			l.ledger.Return(*h)
		}
	}
	for _, h := range holds {
		l.ledger.enter(&h.need, h.devices, -1)
	}
}

// Gathers reports whether the node has all of the needs at once when the work on it has given back what it has. What bundles have stays.
func (l *Line) Gathers(needs []Need) bool {
	parts := make([]Part, len(needs))
	for i := range needs {
		parts[i].Need = needs[i]
	}
	var trial Ledger
	l.mu.Lock()
	total := l.ledger.total
	trial.init(total, nil)
	for _, d := range l.ledger.devices {
		d.free, d.memory = d.total, d.Memory
		trial.devices = append(trial.devices, d)
	}
	for _, b := range l.bundles {
		trial.enter(&b.hold.need, b.hold.devices, -1)
		trial.CPU.Add(-b.hold.need.CPU)
	}
	l.mu.Unlock()
	_, _, short := trial.takeAll(parts, new(owed))
	return short.Empty()
}

// Held is the CPU, in thousandths, that work has which asks for other than one CPU, and that bundles have: one-CPU tasks do not get it soon.
// While such work waits it has given its CPU back. A change is reported as one of what is free beside CPU is (Hooks.Changed).
func (l *Line) Held() int64 { return l.held.Load() }

// Shared is what work of jobs has of that, in thousandths, while more waits for CPU: it goes round by the use of the jobs, so one-CPU tasks of
// another job get their part of it once they wait here. 0 while none waits.
func (l *Line) Shared() int64 {
	if l.lackCPU.Load() {
		return max(l.ofJobs.Load(), 0)
	}
	return 0
}

// keepsFor reports whether what the oldest claim of s lacks is kept for it, and when that may change. The caller holds mu.
func (l *Line) keepsFor(s *shape, now int64) (keeps bool, until int64) {
	if _, short := l.staying.findDevices(&s.need, nil); !short.Empty() || s.need.CPU > l.staying.CPU.Load() {
		return false, 0
	}
	if gathers(s.claims[0].work) {
		return true, 0
	}
	keeps, end := phase(time.Duration(now - s.turn))
	return keeps, s.turn + int64(end)
}

// stays notes that what h has is not given back soon.
func (l *Line) stays(h *Hold) {
	h.stays = true
	l.staying.enter(&h.need, h.devices, -1)
	l.staying.CPU.Add(-h.need.CPU)
}

// returns is called with what is given back.
func (l *Line) returns(h *Hold) {
	if h.stays {
		l.staying.Return(*h)
	}
}

// arrangeLook arranges a look at the line at that time, when more is kept, or less; 0 is never. The caller holds mu.
func (l *Line) arrangeLook(at, now int64) {
	if at == 0 || l.hooks.Later == nil || l.looksAt > now && l.looksAt <= at {
		return
	}
	l.looksAt = at
	l.hooks.Later(at, func() {
		l.Serve()
		l.hooks.Freed()
	})
}

// Ever is Ledger.Ever.
func (l *Line) Ever(n Need) Shortage { return l.ledger.Ever(n) }

// Total is the CPU of the node, in thousandths.
func (l *Line) Total() int64 { return l.ledger.total.CPU }

// changed is called when n was taken or given back.
func (l *Line) changed(n *Need) {
	if !n.IsCPU(n.CPU) {
		l.report.Store(nil)
	}
}

// Report is Ledger.Report in the form that encode gives it, "" when all is free. It is made again only after a change.
func (l *Line) Report(encode func(*Report) string) string {
	if s := l.report.Load(); s != nil {
		return *s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := ""
	if r := l.ledger.Report(&l.owed); r != nil {
		s = encode(r)
	}
	l.report.Store(&s)
	return s
}

// Free is Ledger.Free.
func (l *Line) Free() Need {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Free()
}

// Spares is Ledger.Spares.
func (l *Line) Spares() []Spare {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Spares()
}

// Devices are the UUIDs of what h has, which may be nil.
func (l *Line) Devices(h *Hold) []string {
	if h == nil {
		return nil
	}
	return l.Of(h).ledger.Devices(*h)
}

// Move has the work that would better go to another node leave the line, the oldest of each shape first. It is told by Evict,
// without a cause. Of what waits in bundles only that is asked which may be in any of its group; what the bundle has no devices for that are
// well goes unasked.
func (l *Line) Move() {
	if l.Still() {
		return
	}
	l.moving.Lock() // work that one call has looked at, and not yet taken out, would be seen off twice
	defer l.moving.Unlock()
	stay := map[alike]bool{}
	l.move(stay)
	if l.Roaming.Load() != 0 || l.ill.Load() {
		for _, b := range l.all() {
			b.move(stay)
		}
	}
}

// Still reports whether nothing waits that Move could have leave.
func (l *Line) Still() bool {
	return l.Waits.Load() == 0 && l.Roaming.Load() == 0 && (!l.ill.Load() || l.Idle())
}

func (l *Line) move(stay map[alike]bool) {
	moved := false
	for _, m := range l.movers() {
		w := m.Mover
		if of := (alike{m.shape, w.Alike()}); stay[of] {
			continue
		} else if !m.goes && !w.Leaves() {
			stay[of] = true
			continue
		}
		if len(l.remove(func(o Work) bool { return o == Work(w) })) > 0 { // else it was granted meanwhile
			moved = true
			w.Evict(nil, false)
		}
	}
	if moved {
		l.Serve() // what it lacked was kept from others
	}
}

func (l *Line) movers() (list []mover) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shapes {
		goes := l.node != nil && !l.ledger.could(&s.need)
		if l.node != nil && !goes && !s.need.Roams() {
			continue
		}
		for i := range s.claims {
			if w, ok := s.claims[i].work.(Mover); ok && !w.Over() {
				list = append(list, mover{w, s.key.name, goes})
			}
		}
	}
	return list
}

// Reserves reports whether free CPU is kept for work that waits: for some that lacks nothing but CPU, and before which every
// task of the run queue has started that goes before it. Work of a job with less use than that of those tasks waits for none of them,
// nor does work of class High; work of class Low waits for all there are. Without this a steady stream of one-CPU tasks would starve it.
func (l *Line) Reserves() bool {
	pushed, popped := l.hooks.Queue()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.shapes, func(s *shape) bool { return s.need.CPU > 0 }) {
		return false
	}
	now := l.hooks.Now()
	for _, s := range l.ordered() {
		c := &s.claims[0]
		if s.need.CPU == 0 || c.work.Over() {
			continue
		}
		of := s.standing(c, now)
		above, less := l.hooks.Above(of)
		if above {
			return false // nor does what follows get CPU before that
		}
		before := c.queued // tasks that start before it
		switch {
		case less || l.classy > 0 && of.Class == core.High:
			before = 0
		case l.classy > 0 && of.Class == core.Low:
			before = pushed
		}
		if before <= popped && l.ledger.lacksOnlyCPU(&s.need, nil) {
			if keeps, _ := l.keepsFor(s, now); keeps {
				return true
			}
		}
	}
	return false
}

// asCPU is how much of the node n asks for, as CPU in thousandths: of what there is the least of for it. A node without CPU counts as one of
// one CPU.
func (l *Line) asCPU(n *Need) int64 {
	if l.node != nil {
		l = l.node
	}
	cpu := l.ledger.part(n, cmp.Or(l.ledger.total.CPU, Unit))
	if cpu == 0 && !n.IsCPU(0) {
		return 1 // else a job would have it for nothing
	}
	return cpu
}

// owe notes what is owed from now on, and reports whether that has changed, but for CPU. What is owed is not free, as other nodes hear
// it. The caller holds mu.
func (l *Line) owe(o owed) (changed bool) {
	was := &l.owed
	changed = was.Memory != o.Memory || !slices.Equal(was.devices, o.devices) || !slices.Equal(was.Custom, o.Custom)
	l.owed = o
	l.owesCPU.Store(o.CPU)
	if changed {
		l.report.Store(nil)
	}
	return changed
}

// OwesCPU reports whether free CPU is kept for work that waits, from younger work that waits too.
func (l *Line) OwesCPU() bool { return l.owesCPU.Load() }

// Owes reports whether work that waits lacks something that h has.
func (l *Line) Owes(h *Hold) bool {
	if h == nil || l.Waits.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.shapes) > 0 && (l.lacks.keeps(&h.need) || slices.ContainsFunc(h.devices, l.lacks.device))
}

// Room returns which of the holds would have to be given back for the needs to be free, each of which then is; none for one that is
// free. For all of them at once: all is true, and where they cannot be it returns none. Else it is for as many as can be, in order.
// It leaves out what no need lacks.
func (l *Line) Room(needs []Need, all bool, holds []*Hold) (give []*Hold) {
	l.mu.Lock()
	trial := Ledger{total: l.ledger.total, free: l.ledger.free, devices: slices.Clone(l.ledger.devices)}
	trial.free.Custom = maps.Clone(l.ledger.free.Custom)
	trial.CPU.Store(l.ledger.CPU.Load())
	l.mu.Unlock()
	holds = slices.DeleteFunc(slices.Clone(holds), func(h *Hold) bool { return h == nil || h.line != nil }) // what a bundle has is not the node's
	for i := range needs {
		given, ok := trial.room(&needs[i], holds)
		if !ok && all {
			return nil
		}
		give = append(give, given...)
		holds = slices.DeleteFunc(holds, func(h *Hold) bool { return slices.Contains(given, h) })
	}
	return give
}

// Remove takes the waiting work out for which which is true, also of its bundles. What was kept for it goes to the rest.
func (l *Line) Remove(which func(Work) bool) (removed []Work) {
	for _, b := range l.all() {
		removed = append(removed, b.Remove(which)...)
	}
	own := l.remove(which)
	if len(own) > 0 {
		l.Serve()
	}
	return append(removed, own...)
}

func (l *Line) remove(which func(Work) bool) (removed []Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shapes = slices.DeleteFunc(l.shapes, func(s *shape) bool {
		before := len(s.claims)
		s.claims = slices.DeleteFunc(s.claims, func(c claim) bool {
			out := which(c.work)
			if out {
				removed = append(removed, c.work)
			}
			return out
		})
		l.waits(s, len(s.claims)-before)
		if len(s.claims) > 0 {
			return false
		}
		delete(l.byKey, s.key)
		l.classes(s, -1)
		return true
	})
	slices.SortFunc(l.shapes, byAge)
	return removed
}

// Waiting lists the work for which which is true, in the line and in those of the bundles.
func (l *Line) Waiting(which func(Work) bool) (list []Waiting) {
	for _, b := range l.all() {
		for _, w := range b.Line.waiting(which) {
			w.Bundle = b.name
			list = append(list, w)
		}
	}
	return append(list, l.waiting(which)...)
}

func (l *Line) waiting(which func(Work) bool) (list []Waiting) {
	if l.Waits.Load() == 0 {
		return nil
	}
	_, popped := l.hooks.Queue()
	now := l.hooks.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var before []Work
	for _, t := range l.turns(now) {
		if which(t.work) {
			w := Waiting{Work: t.work, Need: t.shape.need, Since: t.since, Before: before[:len(before):len(before)], Short: l.ledger.Short(t.shape.need)}
			if t.shape.need.CPU > 0 {
				above, less := l.hooks.Above(t.shape.standing(t.claim, now))
				w.Queue = above || !less && t.queued > popped
			}
			list = append(list, w)
		}
		before = append(before, t.work)
	}
	return list
}

// Mover is Work that can as well wait, or begin, on another node.
type Mover interface {
	Evictable
	// Leaves reports whether it would better go: another node has room for it now, or this node has none for it as its devices are.
	// It is called without a lock.
	Leaves() bool
	// Alike is equal for work that goes to the same nodes where it asks for the same: where one stays, all of that stays.
	Alike() any
}

// alike is equal for work of which all stays where one does.
type alike struct {
	shape string
	work  any // Mover.Alike
}

// mover is a Mover of a shape with that name.
type mover struct {
	Mover
	shape string
	goes  bool // unasked
}
