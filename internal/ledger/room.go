package ledger

import (
	"maps"
	"slices"
)

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
