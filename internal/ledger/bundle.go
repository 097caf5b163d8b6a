package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
)

// Bundle is a part of a node's resources that a placement group holds, with devices of its own, as a Line from which the work
// of the group draws. What it has is out of the node's ledger until it is closed and the last of that work has returned.
type Bundle struct {
	Line
	name core.Bundle
	hold Hold
	then func() // after Close: called once nothing runs; guarded by the mutex of Line

	sought atomic.Bool // work has come that may be in any bundle of the group
}

// Evictable is Work that hears of the end of its bundle. It is called without a lock.
type Evictable interface {
	Work
	// Evict is called with why the bundle is gone; nil says that it is on another node. begun says whether the work has been
	// granted what it asked for: then it returns that as ever.
	Evict(cause error, begun bool)
}

// Close has the bundle take no more work, and evicts what waits or runs in it. Once what runs has returned, its resources are
// the node's again and then is called. It is called once.
func (b *Bundle) Close(cause error, then func()) {
	b.node.mu.Lock()
	if b.node.bundles[b.name] == b {
		delete(b.node.bundles, b.name)
	}
	b.node.mu.Unlock()
	b.mu.Lock()
	b.closed, b.then = true, then
	b.mu.Unlock()
	for _, w := range b.Remove(func(Work) bool { return true }) {
		evict(w, cause, false)
	}
	b.Evict(cause)
	b.freed()
}

// Evict evicts what runs in the bundle, which is closed.
func (b *Bundle) Evict(cause error) {
	b.mu.Lock()
	begun := slices.Collect(maps.Values(b.running))
	b.mu.Unlock()
	for _, w := range begun {
		evict(w, cause, true)
	}
}

func evict(w Work, cause error, begun bool) {
	if e, ok := w.(Evictable); ok {
		e.Evict(cause, begun)
	}
}

// freed is called when something of the bundle has become free.
func (b *Bundle) freed() {
	b.mu.Lock()
	then := b.then
	if !b.closed || len(b.running) > 0 {
		then = nil
	}
	if then != nil {
		b.then = nil
	}
	b.mu.Unlock()
	if then != nil {
		b.node.Return(&b.hold)
		then()
	}
	b.changed()
}

// Has reports whether a bundle is here.
func (l *Line) Has(name core.Bundle) bool { return len(l.named(name)) > 0 }

// named returns the bundles that name may mean.
func (l *Line) named(name core.Bundle) (list []*Bundle) {
	if name.Group == "" {
		return nil
	}
	name.Captures = false
	l.mu.Lock()
	defer l.mu.Unlock()
	if name.Index != core.AnyBundle {
		if b := l.bundles[name]; b != nil {
			list = append(list, b)
		}
		return list
	}
	for k, b := range l.bundles {
		if k.Group == name.Group {
			list = append(list, b)
		}
	}
	return list
}

// PushIn is Push for work that draws from a bundle, if n names one: of several from one where it is free, else where the least
// waits, of those whose devices are well. It is false when no such bundle is here; never says what those that are here have too little of.
func (l *Line) PushIn(n Need, w Work) (pushed bool, never Shortage) {
	if n.Bundle.Group == "" {
		l.Push(n, w)
		return true, never
	}
	best, least := (*Bundle)(nil), int32(0)
	for _, b := range l.named(n.Bundle) {
		if n.Roams() {
			b.sought.Store(true)
		}
		if ever := b.Ever(n); !ever.Empty() {
			never = ever
			continue
		}
		waits := b.Waits.Load()
		if b.HasNow(n) {
			waits = -1
		} else if !b.Could(n) {
			waits = math.MaxInt32
		}
		if best == nil || cmp.Or(cmp.Compare(waits, least), cmp.Compare(b.name.Index, best.name.Index)) < 0 {
			best, least = b, waits
		}
	}
	if best == nil {
		return false, never
	}
	if !best.push(n, w) {
		return false, Shortage{}
	}
	if n.Roams() {
		l.roam() // another may have got room since that was looked at
	}
	return true, Shortage{}
}

// push is Push; false where the bundle was closed meanwhile, and the work has to go elsewhere.
func (b *Bundle) push(n Need, w Work) bool {
	b.Push(n, w)
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	// A closed bundle grants nothing: the work is still there, unless Close has evicted it.
	return !closed || len(b.Remove(func(x Work) bool { return x == w })) == 0
}

// Idle reports whether nothing waits, here or in a bundle.
func (l *Line) Idle() bool {
	return l.Waits.Load() == 0 && !slices.ContainsFunc(l.all(), func(b *Bundle) bool { return b.Waits.Load() != 0 })
}

// Of is the line that h is of, which may be nil: this one, or that of a bundle.
func (l *Line) Of(h *Hold) *Line {
	if h != nil && h.line != nil {
		return h.line
	}
	return l
}

// Dropped is called when waiting work is over: what was kept for it goes to others.
func (l *Line) Dropped(n Need) {
	if n.Bundle.Group == "" {
		l.Serve()
		return
	}
	for _, b := range l.named(n.Bundle) {
		b.Serve()
	}
}

// All lists the names of the bundles.
func (l *Line) All() (names []core.Bundle) {
	for _, b := range l.all() {
		names = append(names, b.name)
	}
	slices.SortFunc(names, func(a, b core.Bundle) int { return cmp.Or(cmp.Compare(a.Group, b.Group), a.Index-b.Index) })
	return names
}

// all lists the bundles.
func (l *Line) all() (list []*Bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.bundles {
		list = append(list, b)
	}
	return list
}

// roam has work that waits in one bundle begin in another of its group here that has room, the oldest of each shape first. It may be
// called by what it has begin: then the call that is under way looks again.
func (l *Line) roam() {
	if l.Roaming.Load() == 0 || l.looks.Add(1) > 1 {
		return
	}
	for {
		seen := l.looks.Load()
		for _, from := range l.all() {
			for from.Waits.Load() != 0 && l.settle(from) {
			}
		}
		if l.looks.CompareAndSwap(seen, 0) {
			return
		}
	}
}

// settle has one piece of work that waits in a bundle begin in another; false where none can.
func (l *Line) settle(from *Bundle) bool {
	for _, r := range from.roaming() {
		for _, b := range l.named(r.need.Bundle) {
			if b == from || !b.HasNow(r.need) {
				continue
			}
			if len(from.remove(func(w Work) bool { return w == r.work })) == 0 {
				return true // it has begun, or was evicted
			}
			if !b.push(r.need, r.work) {
				evict(r.work, nil, false)
			}
			from.Serve() // what it lacked was kept from others
			return !b.queues(r.work)
		}
	}
	return false
}

// queues reports whether the work waits in the line.
func (l *Line) queues(w Work) bool {
	if l.Waits.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.shapes, func(s *shape) bool {
		return slices.ContainsFunc(s.claims, func(c claim) bool { return c.work == w })
	})
}

// Rooms says it of each bundle to which work has come that may be in any of its group, and of each that has devices: which those are
// what it was asked for does not say.
func (l *Line) Rooms() (list []Room) {
	for _, b := range l.all() {
		if !b.reports() {
			continue
		}
		b.mu.Lock()
		o := &b.owed
		if len(b.shapes) == 0 {
			o = new(owed)
		}
		rest, _ := b.ledger.rest(o)
		room := Room{b.name, max(b.ledger.CPU.Load(), 0), rest, b.hold.devices}
		if o.CPU {
			room.CPU = 0
		}
		b.mu.Unlock()
		list = append(list, room)
	}
	return list
}

// HasIn reports whether a bundle that n may be in is here, and has room for it.
func (l *Line) HasIn(n Need) bool {
	for _, b := range l.named(n.Bundle) {
		if b.HasNow(n) {
			return true
		}
	}
	return false
}

// Work that may be in any bundle of its group roams: it waits in one, and begins in the first that has room for it. Within a node roam
// sees to that at once, when a bundle has got room and when such work was pushed. Between nodes Move does, by what Rooms reports.

// roamer is work that roams, with what it asks for.
type roamer struct {
	need Need
	work Work
}

// roaming lists the oldest work of each shape that roams and waits in the bundle.
func (b *Bundle) roaming() (list []roamer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.shapes {
		if s.need.Roams() {
			list = append(list, roamer{s.need, s.claims[0].work})
		}
	}
	return list
}

// changed is called when something of the bundle was taken or has become free.
func (b *Bundle) changed() {
	b.node.roam()
	if b.reports() && b.node.hooks.Changed != nil {
		b.node.hooks.Changed()
	}
}

// reports reports whether Rooms says what is free of the bundle.
func (b *Bundle) reports() bool { return len(b.hold.devices) > 0 || b.sought.Load() }

// Room is what is free of a bundle, and kept for nothing that waits in it.
type Room struct {
	Bundle core.Bundle
	CPU    int64 // thousandths
	Rest   *Report
	// Numbers are those of its devices on the node, whose record has their models; nil where they are not known.
	Numbers []int
}

// Sick is how many of its devices are.
func (r *Room) Sick() (n int) {
	for _, d := range r.Rest.Devices {
		if d.Sick {
			n++
		}
	}
	return n
}

// RoomOf is that of a bundle which has n and from which nothing was taken, as far as that is known without its devices: a model that
// n asks for means all that each device of it would, and where n asks for none the models are not known.
func RoomOf(name core.Bundle, n Need) Room {
	r := Room{Bundle: name, CPU: n.CPU, Rest: &Report{Memory: n.Memory, Custom: n.Custom}}
	for left := n.GPU; left > 0; left -= Unit {
		r.Rest.Devices = append(r.Rest.Devices, FreeDevice{Share: min(left, Unit), Memory: n.GPUMemory, Model: n.GPUModel})
	}
	return r
}

// Has reports whether there is what n asks for. A device whose model is not known does for work that asks for none.
func (r *Room) Has(n *Need) bool {
	for k, v := range n.Custom {
		if v > r.Rest.Custom[k] {
			return false
		}
	}
	return n.CPU <= r.CPU && n.Memory <= r.Rest.Memory && len(r.devices(n)) >= n.count()
}

// devices are those, by their numbers, that have their part of n free.
func (r *Room) devices(n *Need) (list []int) {
	for i, d := range r.Rest.Devices {
		if n.count() > 0 && !d.Sick && min(n.GPU, Unit) <= d.Share && n.GPUMemory <= d.Memory && core.OfModel(d.Model, n.GPUModel) {
			list = append(list, i)
		}
	}
	return list
}

// Take takes what n asks for, as far as it is there.
func (r *Room) Take(n *Need) {
	rest := *r.Rest // others have the same
	rest.Custom, rest.Devices = maps.Clone(rest.Custom), slices.Clone(rest.Devices)
	rest.Memory -= n.Memory
	for k, v := range n.Custom {
		if _, has := rest.Custom[k]; has {
			rest.Custom[k] -= v
		}
	}
	list := r.devices(n)
	for _, i := range list[:min(len(list), n.count())] {
		d := &rest.Devices[i]
		d.Share -= min(n.GPU, Unit)
		d.Memory -= n.GPUMemory
	}
	r.CPU, r.Rest = r.CPU-n.CPU, &rest
}
