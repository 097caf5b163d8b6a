package taskengine

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// What the search for cycles over nodes asks of tasks.

// Away returns the node that has a task of this node, and the number of the task there. It looks through all that is in
// flight, which a search does seldom.
func (e *Engine) Away(c *core.Future) (p wire.Peer, number uint64, ok bool) {
	x := e.net.Load()
	if x == nil || !c.Away() {
		return nil, 0, false
	}
	for wp, to := range *x.find.Load() {
		to.flights.Each(func(slot uint64, f flight) {
			if f.task == c {
				p, number, ok = wp, slot, true
			}
		})
		if ok {
			break
		}
	}
	return p, number, ok
}

// Inbound returns the task that p has here under its number, nil when it has none.
func (e *Engine) Inbound(wp wire.Peer, number uint64) *core.Future {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	if a := p.inbound.find(number); a != nil {
		return &a.Future
	}
	return nil
}
