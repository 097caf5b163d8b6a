package ledger

import (
	"cmp"
	"slices"
	"strconv"
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
	owesCPU atomic.Bool  // of owed
	ledger  Ledger
	hooks   Hooks
	short   func()
	report  atomic.Pointer[string] // Report's; nil after a change

	moving sync.Mutex   // of Move
	looks  atomic.Int32 // calls of roam that have not looked yet

	mu     sync.Mutex        // guards the rest, and the ledger but for its CPU
	shapes []*shape          // that wait, by the age of their oldest claim
	byName map[string]*shape // the same, by Need.String and class
	pushed uint64            // claims so far
	classy int               // shapes of another class than Normal
	owed   owed              // to those that wait; empty when none does

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
	// Above reports whether a task of the run queue waits that is of a higher class.
	Above func(core.Class) bool
	// Freed is called when resources have become free.
	Freed func()
	// Changed is called when other than CPU, or several CPUs, was taken or has become free, or a device sick or well; nil for none.
	Changed func()
	// Choose takes whole devices; nil takes the first. It is called under the lock.
	Choose Choose
}

// OnShort has f called, without a lock, when work waits that nothing free will do for. It is called before the line is used.
func (l *Line) OnShort(f func()) { l.short = f }

// Work is what waits in a Line. All but Grant is called under its lock.
type Work interface {
	// Class is that of the work, which does not change.
	Class() core.Class
	// Over reports whether the work has ended without having begun, or will end at its next check.
	Over() bool
	// Begins is called when all that it asks for is free, and reports whether nothing else is in the way: then Grant follows.
	Begins(n *Need) bool
	// Grant has the work begin with h, which it gives back by Return once its code has returned. Work that is over gets nil.
	Grant(h *Hold)
}

// shape is the claims with one need and of one class, oldest first; never empty.
type shape struct {
	need   Need
	class  core.Class
	name   string
	claims []claim
}

// claim is Work that waits.
type claim struct {
	work   Work
	queued uint64 // tasks queued before it: they go first
	order  uint64
	since  int64 // when it was pushed, by Hooks.Now
}

// Init makes l the line of a node that has total, of which GPU is not read, and devices.
func (l *Line) Init(total Need, devices []Device, h Hooks) {
	l.ledger.init(total, devices)
	l.ledger.choose = h.Choose
	l.hooks, l.running = h, map[*Hold]Work{}
}

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
	since := l.hooks.Now()
	name, class := n.String(), w.Class()
	if class != core.Normal {
		name += ", class " + strconv.Itoa(int(class))
	}
	if n.Roams() {
		name += ", any bundle"
	}
	l.mu.Lock()
	s := l.byName[name]
	if s == nil {
		s = &shape{need: n, class: class, name: name}
		if l.byName == nil {
			l.byName = map[string]*shape{}
		}
		l.byName[name] = s
		l.shapes = append(l.shapes, s)
		l.classes(s, +1)
	}
	l.pushed++
	s.claims = append(s.claims, claim{work: w, queued: queued, order: l.pushed, since: since})
	l.mu.Unlock()
	l.waits(&n, +1)
	l.Serve()
}

// Serve grants all work what is free for it, oldest first.
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

// next takes the oldest work of the highest class whose need is free. What work before it lacks is kept from it where it is of
// another shape, or a stream of small needs would starve a large one.
func (l *Line) next() (w Work, h *Hold, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, false
	}
	var owed owed
	for _, s := range l.ordered() {
		w = s.claims[0].work
		if !w.Over() {
			if owed.keeps(&s.need) {
				continue
			}
			if s.need.CPU > 0 && l.hooks.Above(s.risen(l.hooks.Now())) {
				owed.CPU = true
				continue
			}
			taken, short := l.ledger.takeOf(s.need, nil, &owed)
			if !short.Empty() {
				owed.add(&l.ledger, &s.need, &short)
				continue
			}
			if !w.Begins(&s.need) {
				l.ledger.Return(taken)
				continue
			}
			h = &taken
			if l.node != nil || !s.need.IsCPU(0) {
				h.since, l.running[h] = l.hooks.Now(), w
			}
			if l.node != nil {
				h.line, h.pool = l, l
			} else if !s.need.IsCPU(s.need.CPU) || s.need.CPU > 0 && !yields(w) {
				h.pool = (*heldCPU)(l)
				l.held.Add(s.need.CPU)
			}
			l.changed(&s.need)
		}
		l.pop(s)
		l.waits(&s.need, -1)
		return w, h, false
	}
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

// pop takes the oldest claim of s out.
func (l *Line) pop(s *shape) {
	s.claims[0] = claim{}
	s.claims = s.claims[1:]
	i := slices.Index(l.shapes, s)
	l.shapes = slices.Delete(l.shapes, i, i+1)
	if len(s.claims) == 0 {
		delete(l.byName, s.name)
		l.classes(s, -1)
		return
	}
	at, _ := slices.BinarySearchFunc(l.shapes, s, byAge)
	l.shapes = slices.Insert(l.shapes, at, s)
}

// classes counts the shapes of other classes than Normal.
func (l *Line) classes(s *shape, n int) {
	if s.class != core.Normal {
		l.classy += n
	}
}

// ordered is the shapes that wait: those first whose oldest claim is of the highest class, risen by how long it waits, then by age.
func (l *Line) ordered() []*shape {
	if l.classy == 0 {
		return l.shapes
	}
	now := l.hooks.Now()
	list := slices.Clone(l.shapes)
	slices.SortStableFunc(list, func(a, b *shape) int { return cmp.Compare(b.risen(now), a.risen(now)) })
	return list
}

// risen is the class of the oldest claim.
func (s *shape) risen(now int64) core.Class {
	return s.class.Risen(time.Duration(now - s.claims[0].since))
}

func byAge(a, b *shape) int { return cmp.Compare(a.claims[0].order, b.claims[0].order) }

// Return gives h back, once, and starts what waited for it.
func (l *Line) Return(h *Hold) {
	l = l.Of(h)
	l.mu.Lock()
	delete(l.running, h)
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

// told calls Hooks.Changed if n is more than one CPU, or of a bundle.
func (l *Line) told(n *Need) {
	if l.hooks.Changed != nil && (l.node != nil || n.Beyond()) {
		l.hooks.Changed()
	}
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
		l.waits(&s.need, len(s.claims)-before)
		if len(s.claims) > 0 {
			return false
		}
		delete(l.byName, s.name)
		l.classes(s, -1)
		return true
	})
	slices.SortFunc(l.shapes, byAge)
	return removed
}

// Reserves reports whether free CPU is kept for work that waits: for some that lacks nothing but CPU, and before which every
// task of the run queue has started; work of class High waits for none of them, and of class Low for all there are. Without this a steady stream of one-CPU tasks would starve it.
func (l *Line) Reserves() bool {
	pushed, popped := l.hooks.Queue()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shapes {
		c := &s.claims[0]
		before := c.queued // tasks that start before it
		if l.classy > 0 {
			switch s.risen(l.hooks.Now()) {
			case core.High:
				before = 0
			case core.Low:
				before = pushed
			}
		}
		if before <= popped && s.need.CPU > 0 && !c.work.Over() && !l.hooks.Above(s.risen(l.hooks.Now())) && l.ledger.lacksOnlyCPU(&s.need, nil) {
			return true
		}
	}
	return false
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

// SetSick is Ledger.SetSick.
func (l *Line) SetSick(uuid string, sick bool) bool {
	l.mu.Lock()
	known := l.ledger.SetSick(uuid, sick)
	l.report.Store(nil)
	l.mu.Unlock()
	for _, b := range l.all() {
		b.SetSick(uuid, sick)
	}
	l.Serve()
	if l.hooks.Changed != nil {
		l.hooks.Changed()
	}
	return known
}

// Sick reports whether h, which may be nil, has a sick device.
func (l *Line) Sick(h *Hold) bool {
	if h == nil || len(h.devices) == 0 {
		return false
	}
	l = l.Of(h)
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(h.devices, func(i int) bool { return l.ledger.devices[i].sick })
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
