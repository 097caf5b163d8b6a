package ledger

import (
	"cmp"
	"slices"

	"github.com/raysys/raysys/internal/core"
)

// Part is a bundle that is to be carved out of a node.
type Part struct {
	Name core.Bundle
	Need Need
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

// inOrder returns the numbers of the parts, those first that fewer devices do for, of these the larger.
func inOrder(parts []Part) []int {
	list := make([]int, len(parts))
	for i := range list {
		list[i] = i
	}
	slices.SortStableFunc(list, func(i, j int) int {
		x, y := &parts[i].Need, &parts[j].Need
		return cmp.Or(-cmp.Compare(len(x.GPUModel), len(y.GPUModel)), cmp.Compare(x.GPUModel, y.GPUModel), // the more words, the fewer devices
			-cmp.Compare(x.GPUMemory, y.GPUMemory), -cmp.Compare(x.GPU, y.GPU))
	})
	return list
}

// alike reports whether n and o ask for whole devices, and the same devices do for both.
func (n *Need) alike(o *Need) bool {
	return n.GPU >= Unit && o.GPU >= Unit && n.GPUModel == o.GPUModel && n.GPUMemory == o.GPUMemory
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

// partOf is what a bundle that asks for n has of the device: all of its memory, unless it shares the device or asks for some.
func (d Device) partOf(n *Need) Device {
	d.Share = min(n.GPU, Unit)
	if n.GPU < Unit || n.GPUMemory != 0 {
		d.Memory = n.GPUMemory
	}
	return d
}

// Do reports whether a bundle that asks for as much as bundle, and has these devices, has those that n asks for when all of them are free.
func Do(devices []Device, bundle, n Need) bool {
	could := 0
	for _, d := range devices {
		if d = d.partOf(&bundle); (&device{Device: d, total: d.Share}).could(&n) {
			could++
		}
	}
	return could >= n.count()
}

// EverIn reports whether a bundle of this node has what n asks for once all that it has is given back; false where the bundle is not here.
func (l *Line) EverIn(name core.Bundle, n Need) (ever, here bool) {
	for _, b := range l.named(name) {
		short := b.Ever(n)
		return short.Empty(), true
	}
	return false, false
}
