package grainengine

import (
	"slices"

	"github.com/raysys/raysys"
)

// ring is the nodes that take turns with the calls of this node to one key of a stateless kind, where this node runs no
// workers of its own. After each call the route asks for a node that is not in the ring, until there is none.
type ring struct {
	spots []spot
	full  bool // there was none
	one   bool // the strategy chooses one node for the key, and the calls do not go to others
	next  int  // whose turn it is
	calls int  // since the last time that the ring was taken for full
}

type spot struct {
	place Place
	peer  *farPeer
}

// spreads reports whether a strategy leaves it open which node takes a call; others choose for the key.
func spreads(s raysys.Strategy) bool { return s == "" || s == raysys.Balanced || s == raysys.Spread }

// avoid lists the nodes that are not to be found again: those in the ring, and the one that was found wrong last.
func (g *ring) avoid(wrong Place) (ids []raysys.NodeID) {
	for _, s := range g.spots {
		ids = append(ids, s.place.Node)
	}
	if wrong.Node != "" && !slices.Contains(ids, wrong.Node) {
		ids = append(ids, wrong.Node)
	}
	return ids
}

// add enters a node that was found, and returns whose turn the next call is: that node's, if it is new.
func (g *ring) add(p Place, fp *farPeer) spot {
	if slices.ContainsFunc(g.spots, func(s spot) bool { return s.peer == fp }) {
		g.full = true
		return g.take()
	}
	if g.full = g.one; g.one {
		g.spots = nil
	}
	s := spot{p, fp}
	g.spots = append(g.spots, s)
	return s
}

// drop takes a node out that is gone, or takes no calls.
func (g *ring) drop(node raysys.NodeID, incarnation uint64) {
	g.spots = slices.DeleteFunc(g.spots, func(s spot) bool {
		return s.place.Node == node && s.place.Incarnation == incarnation
	})
}

// turn returns whose turn the next call is; false when the registry is to be asked for a node first.
func (g *ring) turn() (spot, bool) {
	if g.calls++; g.calls >= statelessCalls {
		g.calls, g.full = 0, false
	}
	if !g.full || len(g.spots) == 0 {
		return spot{}, false
	}
	return g.take(), true
}

func (g *ring) take() spot {
	s := g.spots[g.next%len(g.spots)]
	g.next++
	return s
}
