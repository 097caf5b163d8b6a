package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

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
