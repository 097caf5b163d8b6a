package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// Ledger is the resources of one node. Its methods are not safe for use by several goroutines, but for those on CPU.
type Ledger struct {
	CPU atomic.Int64 // free, in thousandths

	total   Need // without GPU
	free    Need // without GPU and CPU
	devices []device
	choose  Choose
}

// Choose takes n of the free whole devices, which are named by their numbers in order: those that are connected best.
type Choose func(free []int, n int) []int

// New makes the ledger of a node that has total, of which GPU is not read, and devices.
func New(total Need, devices []Device) *Ledger {
	l := &Ledger{}
	l.init(total, devices)
	return l
}

func (l *Ledger) init(total Need, devices []Device) {
	total.GPU, total.GPUMemory, total.GPUModel = 0, 0, ""
	l.total, l.free = total, total
	l.free.Custom = maps.Clone(total.Custom)
	l.CPU.Store(total.CPU)
	for _, d := range devices {
		share := cmp.Or(d.Share, Unit)
		l.devices = append(l.devices, device{Device: d, total: share, free: share, memory: d.Memory})
	}
}

// Hold is what one piece of work has.
type Hold struct {
	need    Need
	devices []int
	line    *Line // of the bundle that it is of; nil for a node's
	pool    core.CPUPool
	since   int64   // when it was granted, by Hooks.Now
	charge  *Charge // of its job; nil for work of none
	stays   bool    // it is in Line.staying
}

// Pool says to whom the CPU of a Hold goes back while its holder waits: to the bundle that it was taken from, or to the account of what Line.Held
// counts. nil: to the line.
func (h *Hold) Pool() core.CPUPool { return h.pool }

// Need is what it was taken for.
func (h *Hold) Need() Need { return h.need }

// Since is when it was granted, by Hooks.Now.
func (h *Hold) Since() int64 { return h.since }

// withoutCPU is the need less its CPU, which a Line gives back by itself.
func (h *Hold) withoutCPU() Need {
	n := h.need
	n.CPU = 0
	return n
}

// Take holds what n asks for, all of it or nothing. What is short is in the Shortage, without words.
func (l *Ledger) Take(n Need) (Hold, Shortage) { return l.takeOf(n, nil, nil) }

// takeOf is Take of the devices among these, or among all: nil; and beside those that are owed.
func (l *Ledger) takeOf(n Need, these []int, o *owed) (Hold, Shortage) {
	list, s := l.look(&n, o)
	if these != nil {
		list = slices.DeleteFunc(list, func(i int) bool { return !slices.Contains(these, i) })
		s.GPU = s.GPU || len(list) < n.count()
	}
	if !s.Empty() {
		return Hold{}, s
	}
	if !l.TakeCPU(n.CPU) {
		s.CPU = true
		return Hold{}, s
	}
	list = l.take(&n, list)
	l.enter(&n, list, -1)
	return Hold{need: n, devices: list}, s
}

// look returns the devices that are not owed (o is nil where none is) among which n would get its own, and what is short of all but CPU.
func (l *Ledger) look(n *Need, o *owed) (list []int, s Shortage) {
	s.Memory = n.Memory > l.free.Memory
	for k, v := range n.Custom {
		if v > l.free.Custom[k] {
			s.Custom = append(s.Custom, k)
		}
	}
	list, ok := l.pick(n, o)
	s.GPU = !ok
	return list, s
}

// lacksOnlyCPU reports whether CPU alone may be short of what n asks for.
func (l *Ledger) lacksOnlyCPU(n *Need, o *owed) bool {
	_, s := l.look(n, o)
	return s.Empty()
}

// Return gives back what h has, once. CPU that a waiting holder has given back must have been taken again.
func (l *Ledger) Return(h Hold) {
	l.enter(&h.need, h.devices, +1)
	l.CPU.Add(h.need.CPU)
}

// TakeCPU takes free CPU, in thousandths.
func (l *Ledger) TakeCPU(n int64) bool {
	for {
		free := l.CPU.Load()
		if n > 0 && free < n {
			return false
		}
		if l.CPU.CompareAndSwap(free, free-n) {
			return true
		}
	}
}

func (l *Ledger) enter(n *Need, devices []int, sign int64) {
	l.free.Memory += sign * n.Memory
	for k, v := range n.Custom {
		l.free.Custom[k] += sign * v
	}
	for _, i := range devices {
		d := &l.devices[i]
		d.free += sign * min(n.GPU, Unit)
		d.memory += sign * n.GPUMemory
	}
}

// Devices are the UUIDs of what h has.
func (l *Ledger) Devices(h Hold) (list []string) {
	for _, i := range h.devices {
		list = append(list, l.devices[i].UUID)
	}
	return list
}

// Ever returns what the node has too little of for n however idle it is. Sick devices count: they may recover.
func (l *Ledger) Ever(n Need) (s Shortage) {
	over := func(name string, want, have int64) bool {
		if want > have {
			s.add("%s %g of %g", name, float64(want)/Unit, float64(have)/Unit)
		}
		return want > have
	}
	s.CPU = over("CPU", n.CPU, l.total.CPU)
	if s.Memory = n.Memory > l.total.Memory; s.Memory {
		s.add("Memory %s of %s", core.Bytes(n.Memory), core.Bytes(l.total.Memory))
	}
	for _, k := range slices.Sorted(maps.Keys(n.Custom)) {
		switch want, have := n.Custom[k], l.total.Custom[k]; {
		case want > have && have == 0 && len(l.total.Custom) > 0:
			s.Custom = append(s.Custom, k)
			s.add("%s %g of 0, but %s", k, float64(want)/Unit, core.Listed(slices.Sorted(maps.Keys(l.total.Custom)), " and "))
		case over(k, want, have):
			s.Custom = append(s.Custom, k)
		}
	}
	could := 0
	for i := range l.devices {
		if l.devices[i].could(&n) {
			could++
		}
	}
	if s.GPU = n.count() > could; s.GPU {
		s.add("%s", l.tooFew(n, could))
	}
	return s
}

// tooFew says that so few devices could do for n.
func (l *Ledger) tooFew(n Need, could int) string {
	text := fmt.Sprintf("GPU %g, where %d of %d devices would do", float64(n.GPU)/Unit, could, len(l.devices))
	which := core.Resources{GPUModel: n.GPUModel, GPUMemory: n.GPUMemory}
	if n.GPUModel != "" || n.GPUMemory != 0 {
		text += fmt.Sprintf(" (%v)", which)
	}
	if could > 0 || len(l.devices) == 0 {
		return text
	}
	kinds := core.DeviceKinds{Want: which}
	for i := range l.devices {
		d := &l.devices[i]
		kinds.Add(d.Model, d.Memory, float64(d.total)/Unit)
	}
	return text + fmt.Sprintf(": there is %v", &kinds)
}

// Free is what is free of all but devices.
func (l *Ledger) Free() Need {
	f := l.free
	f.Custom = maps.Clone(f.Custom)
	f.CPU = max(l.CPU.Load(), 0)
	return f
}

// Spare is what is free of one device.
type Spare struct {
	Device
	Share int64 // thousandths
	Bytes int64
	Sick  bool
}

// Total is what the node has of the device, in thousandths.
func (s *Spare) Total() int64 { return cmp.Or(s.Device.Share, Unit) }

// Spares are the devices with what is free of each.
func (l *Ledger) Spares() (list []Spare) {
	for _, d := range l.devices {
		list = append(list, Spare{d.Device, d.free, d.memory, d.sick})
	}
	return list
}

// part is how much of the node n asks for, where whole is all of it: of what there is the least of for it.
func (l *Ledger) part(n *Need, whole int64) int64 {
	part := int64(0)
	of := func(want, have int64) {
		if want > 0 && have > 0 {
			part = max(part, int64(float64(want)/float64(have)*float64(whole)))
		}
	}
	of(n.CPU, l.total.CPU)
	of(n.Memory, l.total.Memory)
	for k, v := range n.Custom {
		of(v, l.total.Custom[k])
	}
	if n.GPU > 0 {
		share, memory := int64(0), int64(0)
		for i := range l.devices {
			if d := &l.devices[i]; d.could(n) {
				share += d.total
				memory += d.Memory
			}
		}
		of(n.GPU, share)
		of(n.GPUMemory*int64(n.count()), memory)
	}
	return min(part, whole)
}

// takeAll takes what the parts ask for, beside what is owed; or some of it, with the part that has no room, and what is short for it.
func (l *Ledger) takeAll(parts []Part, o *owed) (holds []*Hold, without int, short Shortage) {
	holds = make([]*Hold, len(parts))
	var together []int
	without = -1
	for k, i := range inOrder(parts) {
		n := &parts[i].Need
		if k == 0 || !n.alike(&parts[without].Need) {
			together = l.together(parts, n, o)
		}
		var h Hold
		without = i
		if short = o.of(n); !short.Empty() {
			break
		}
		if h, short = l.takeOf(*n, together, o); !short.Empty() {
			break
		}
		holds[i] = &h
	}
	return holds, without, short
}

// together chooses the devices, of those that are not owed, of all parts that are like n, so that what is connected best is dealt out
// among them. Nil is any.
func (l *Ledger) together(parts []Part, n *Need, o *owed) []int {
	all, several := *n, 0
	all.GPU = 0
	for i := range parts {
		if parts[i].Need.alike(n) {
			all.GPU += parts[i].Need.GPU
			several++
		}
	}
	if several < 2 {
		return nil
	}
	list, ok := l.pick(&all, o)
	if !ok {
		return nil // one of them will have no room
	}
	return l.take(&all, list)
}

// pick returns the devices that are not owed of which n gets those that choose takes, or false. A share goes to the device of which the least is
// left, so that whole devices stay whole.
func (l *Ledger) pick(n *Need, o *owed) (list []int, ok bool) {
	k := n.count()
	if k == 0 {
		return nil, true
	}
	best := -1
	for i := range l.devices {
		d := &l.devices[i]
		if !d.can(n) || o != nil && o.device(i) {
			continue
		}
		if n.GPU >= Unit {
			list = append(list, i)
		} else if best < 0 || d.free < l.devices[best].free {
			best = i
		}
	}
	if best >= 0 {
		return []int{best}, true
	}
	return list, len(list) >= k
}

// take chooses the devices that n gets among those that pick has returned: the first, unless a Choose knows better.
func (l *Ledger) take(n *Need, list []int) []int {
	k := n.count()
	if len(list) <= k {
		return list
	}
	if l.choose != nil {
		return l.choose(list, k)
	}
	return list[:k:k]
}

// Report is what is free of all but CPU, and not owed to work that waits; nil when all of it is.
func (l *Ledger) Report(o *owed) *Report {
	r, all := l.rest(o)
	if all {
		return nil
	}
	return r
}

// rest is Report also when all of it is: all.
func (l *Ledger) rest(o *owed) (r *Report, all bool) {
	all = !o.Memory && !o.GPU && len(o.Custom) == 0 && l.free.Memory == l.total.Memory && maps.Equal(l.free.Custom, l.total.Custom)
	r = &Report{Memory: l.free.Memory, Custom: maps.Clone(l.free.Custom)}
	if o.Memory {
		r.Memory = 0
	}
	for _, k := range o.Custom {
		delete(r.Custom, k)
	}
	for i, d := range l.devices {
		all = all && d.free == d.total && d.memory == d.Memory && !d.sick
		free := FreeDevice{Share: d.free, Memory: d.memory, Sick: d.sick}
		if o.device(i) {
			free.Share, free.Memory = 0, 0
		}
		r.Devices = append(r.Devices, free)
	}
	return r, all
}

// room takes what n asks for, with the holds given back that this takes; false where it is not there with all of them.
func (l *Ledger) room(n *Need, holds []*Hold) (given []*Hold, ok bool) {
	asked := Shortage{CPU: n.CPU > 0, Memory: n.Memory > 0, GPU: n.GPU > 0, Custom: slices.Collect(maps.Keys(n.Custom))}
	fits := func() bool {
		h, short := l.Take(*n)
		if short.Empty() {
			l.Return(h)
		}
		return short.Empty()
	}
	for _, h := range holds {
		if fits() {
			break
		}
		if asked.Touches(&h.need) {
			l.Return(*h)
			given = append(given, h)
		}
	}
	ok = fits()
	given = slices.DeleteFunc(given, func(h *Hold) bool {
		l.enter(&h.need, h.devices, -1)
		l.CPU.Add(-h.need.CPU)
		if !ok || fits() {
			return true
		}
		l.Return(*h)
		return false
	})
	if ok {
		l.Take(*n)
	}
	return given, ok
}

// SetSick says whether new work may hold a device; false when there is none with that UUID.
func (l *Ledger) SetSick(uuid string, sick bool) bool {
	i := slices.IndexFunc(l.devices, func(d device) bool { return d.UUID == uuid })
	if i >= 0 {
		l.devices[i].sick = sick
	}
	return i >= 0
}

// could reports whether there are the devices that n asks for once nothing holds them, of those that are not sick.
func (l *Ledger) could(n *Need) bool {
	well := 0
	for i := range l.devices {
		if d := &l.devices[i]; !d.sick && d.could(n) {
			well++
		}
	}
	return n.count() <= well
}

// unwell is Line.Unwell of the ledger.
func (l *Ledger) unwell(n *Need) error {
	var sick []string
	well := 0
	for i := range l.devices {
		if d := &l.devices[i]; d.could(n) && d.sick {
			sick = append(sick, d.UUID)
		} else if d.could(n) {
			well++
		}
	}
	if k := n.count(); k <= well || k > well+len(sick) {
		return nil
	}
	return ErrSick(*n, sick)
}

// Short says, a line each, of what n asks for too little is free.
func (l *Ledger) Short(n Need) []string {
	now, ever := 0, 0
	for i := range l.devices {
		if l.devices[i].could(&n) {
			ever++
		}
		if l.devices[i].can(&n) {
			now++
		}
	}
	return core.Short(n.Resources(), l.Free().Resources(), l.total.Resources(), now, ever)
}

// Report is what is free of all but CPU.
type Report struct {
	Memory  int64
	Custom  map[string]int64 // thousandths
	Devices []FreeDevice     // in the order of the node's devices
}

// FreeDevice is what is free of one device.
type FreeDevice struct {
	Share  int64 // thousandths
	Memory int64
	Sick   bool
	Model  string // of a bundle's, where it is known
}

// Demand is work of one shape that waits.
type Demand struct {
	Need   Need
	Group  string // the placement group in whose bundles it waits; "" for work that waits for what the node has free
	Count  int
	Oldest int64 // when the oldest began to wait, by Hooks.Now
}

// Times says how long the work of a Line takes. It is called under the lock of the Line.
type Times interface {
	// Runs is how much longer work takes that was granted what it asks for at since, by Hooks.Now. known is false for work of which
	// nobody knows when it ends: then it is how long it has had that.
	Runs(w Work, since int64) (takes time.Duration, known bool)
	// Waits is how long work takes that waits. It is called after Runs.
	Waits(w Work) time.Duration
}

const (
	// maxWeighed is how many pieces of work of one shape are looked at, the oldest.
	maxWeighed = 128
	// maxTakes bounds what one piece of work is taken to last, so that sums do not overflow.
	maxTakes = 30 * 24 * time.Hour
)
