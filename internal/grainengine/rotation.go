package grainengine

import (
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
)

// rotation is the nodes that take turns with the calls of this node to one key of a stateless kind, where this node
// runs no workers of its own. After each call the route asks for a node that is not in it yet, until there is none. Where workers hold
// resources, a node that has room goes before one in turn that has none.
type rotation struct {
	nodes []rotationNode
	full  bool // the registry knows no node more
	found bool // the next node that add gets has room, and is the node for the next call
	one   bool // the strategy chooses one node for the key, and the calls do not go to others
	next  int  // the index of the node for the next call
	calls int  // since full was set
}

type rotationNode struct {
	place graindir.Place
	peer  *peer
}

// spreads reports whether calls of one key may go to several nodes under the strategy; others choose one for the key.
func spreads(s raysys.Strategy) bool { return s == "" || s == raysys.Balanced || s == raysys.Spread }

// avoid lists the nodes that the registry is not to name again: those in the rotation, and the one that was found wrong
// last.
func (g *rotation) avoid(wrong graindir.Place) (ids []raysys.NodeID) {
	for _, s := range g.nodes {
		ids = append(ids, s.place.Node)
	}
	if wrong.Node != "" && !slices.Contains(ids, wrong.Node) {
		ids = append(ids, wrong.Node)
	}
	return ids
}

// add enters a node that the registry named, and returns the node for the next call: the new one, if it is new.
func (g *rotation) add(at graindir.Place, p *peer) rotationNode {
	s := rotationNode{at, p}
	known := slices.ContainsFunc(g.nodes, func(s rotationNode) bool { return s.peer == p })
	switch {
	case g.found && (known || g.one):
		g.full = g.full || known
		return s
	case known:
		g.full = true
		return g.take()
	}
	if g.full = g.one; g.one {
		g.nodes = nil
	}
	g.nodes = append(g.nodes, s)
	return s
}

// drop removes a node that is gone, or takes no calls.
func (g *rotation) drop(node raysys.NodeID, incarnation uint64) {
	g.nodes = slices.DeleteFunc(g.nodes, func(s rotationNode) bool {
		return s.place.Node == node && s.place.Incarnation == incarnation
	})
}

// nextNode returns the node for the next call; false when the registry is to be asked for one more first.
func (g *rotation) nextNode() (rotationNode, bool) {
	if g.calls++; g.calls >= statelessCalls {
		g.calls, g.full = 0, false
	}
	if !g.full || len(g.nodes) == 0 {
		return rotationNode{}, false
	}
	return g.take(), true
}

func (g *rotation) take() rotationNode {
	s := g.nodes[g.next%len(g.nodes)]
	g.next++
	return s
}
