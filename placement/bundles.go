package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/raysys/raysys"
)

// GroupStrategy says how the bundles of a placement group lie to each other.
type GroupStrategy string

const (
	// Pack puts the bundles on as few nodes as it can.
	Pack GroupStrategy = "PACK"
	// Spread puts them on as many different nodes as it can.
	Spread GroupStrategy = "SPREAD"
	// StrictPack puts all of them on one node, or none anywhere.
	StrictPack GroupStrategy = "STRICT_PACK"
	// StrictSpread puts each on a node of its own, or none anywhere.
	StrictSpread GroupStrategy = "STRICT_SPREAD"
)

// GroupStrategies are all there are.
var GroupStrategies = []GroupStrategy{Pack, Spread, StrictPack, StrictSpread}

// GroupRequest is the bundles of one group that want nodes together.
type GroupRequest struct {
	Strategy  GroupStrategy
	Namespace string // of the work in them: nodes of other programs are left out; "" leaves none out
	Bundles   []raysys.Resources
	// At is, for each bundle, the node that has it, which stays; "" for those that want a node. Nil: all do.
	At []raysys.NodeID
	// Avoid are nodes that have just refused bundles. They are left out.
	Avoid []raysys.NodeID
}

// Assign chooses a node for each bundle that has none, by what is free, and returns the nodes of all. The error matches
// raysys.ErrNoCapacity when no state of these nodes would do, else ErrNoNode. Like Place it reserves nothing.
//
// Whether groups of many bundles fit is a hard question: Pack, Spread and the shares of devices are tried in one order, the
// largest first, and may miss the one way that there is.
func Assign(v *View, g GroupRequest) ([]raysys.NodeID, error) {
	at := make([]raysys.NodeID, len(g.Bundles))
	copy(at, g.At)
	if err := v.everAssigns(&g); err != nil {
		return nil, err
	}
	a := assignment{g: &g, at: at}
	for i := range v.nodes {
		v.refresh(i)
		n := &v.nodes[i]
		if n.hosts(&g) && !n.Joining && !n.Draining && !n.Suspect && !slices.Contains(g.Avoid, n.ID) {
			a.nodes = append(a.nodes, n.copied())
		}
	}
	a.order()
	for _, id := range at {
		if id != "" {
			a.count(id)
		}
	}
	var ok bool
	switch g.Strategy {
	case StrictPack:
		ok = a.onOne()
	case StrictSpread:
		ok = a.apart()
	case Spread:
		ok = a.spread()
	default:
		ok = a.pack()
	}
	if !ok {
		return nil, fmt.Errorf("%w: a group of %d bundles with %s: too little is free: it waits for room", ErrNoNode, len(g.Bundles), g.Strategy)
	}
	return at, nil
}

// hosts reports whether bundles of g may be on the node, as far as that does not pass.
func (n *Node) hosts(g *GroupRequest) bool {
	return n.Worker && (g.Namespace == "" || n.Namespace == g.Namespace)
}

// copied is a copy that an assignment takes resources from.
func (n *Node) copied() Node {
	c := *n
	c.Free.Custom = maps.Clone(c.Free.Custom)
	c.Devices = slices.Clone(c.Devices)
	return c
}

// assignment is one that is being made.
type assignment struct {
	g     *GroupRequest
	at    []raysys.NodeID
	nodes []Node                // that may take bundles, with what the assignment has left of them
	left  []int                 // the bundles without a node, in order
	here  map[raysys.NodeID]int // bundles of the group, by node
}

// order lists the bundles without a node: first those that fewer devices do for, of these the largest. Nodes carve them in that order.
func (a *assignment) order() {
	for i, id := range a.at {
		if id == "" {
			a.left = append(a.left, i)
		}
	}
	slices.SortStableFunc(a.left, func(i, j int) int {
		x, y := &a.g.Bundles[i], &a.g.Bundles[j]
		return cmp.Or(cmp.Compare(len(y.GPUModel), len(x.GPUModel)), cmp.Compare(y.GPUMemory, x.GPUMemory), cmp.Compare(y.GPU, x.GPU),
			cmp.Compare(len(y.Custom), len(x.Custom)), cmp.Compare(y.CPU, x.CPU), cmp.Compare(y.Memory, x.Memory))
	})
}

func (a *assignment) count(id raysys.NodeID) {
	if a.here == nil {
		a.here = map[raysys.NodeID]int{}
	}
	a.here[id]++
}

// put gives bundle i to node n, which has room.
func (a *assignment) put(i int, n *Node) {
	n.release(&a.g.Bundles[i], -1)
	a.at[i] = n.ID
	a.count(n.ID)
}

// fill returns which of the bundles left n has room for together, in order.
func (a *assignment) fill(n *Node) (list []int) {
	c := n.copied()
	for _, i := range a.left {
		if c.hasNow(&a.g.Bundles[i]) {
			c.release(&a.g.Bundles[i], -1)
			list = append(list, i)
		}
	}
	return list
}

// pack gives bundles to the nodes that have some of the group, then to the node with room for the most, and so on. Of nodes
// with room for as many it takes the one with the least CPU free, so that large nodes stay for large groups.
func (a *assignment) pack() bool {
	for len(a.left) > 0 {
		var best *Node
		var most []int
		for k := range a.nodes {
			n := &a.nodes[k]
			list := a.fill(n)
			if len(list) == 0 {
				continue
			}
			if best == nil || cmp.Or(-cmp.Compare(min(a.here[n.ID], 1), min(a.here[best.ID], 1)), -cmp.Compare(len(list), len(most)), cmp.Compare(n.Free.CPU, best.Free.CPU)) < 0 {
				best, most = n, list
			}
		}
		if best == nil {
			return false
		}
		for _, i := range most {
			a.put(i, best)
		}
		a.left = slices.DeleteFunc(a.left, func(i int) bool { return a.at[i] != "" })
	}
	return true
}

// spread gives each bundle to the node with the fewest of the group, of these to the one with the most CPU free.
func (a *assignment) spread() bool {
	for _, i := range a.left {
		var best *Node
		for k := range a.nodes {
			n := &a.nodes[k]
			if n.hasNow(&a.g.Bundles[i]) && (best == nil || cmp.Or(cmp.Compare(a.here[n.ID], a.here[best.ID]), -cmp.Compare(n.Free.CPU, best.Free.CPU)) < 0) {
				best = n
			}
		}
		if best == nil {
			return false
		}
		a.put(i, best)
	}
	return true
}

// onOne gives all bundles to one node: the one that has some of them, or that with the most CPU free.
func (a *assignment) onOne() bool {
	var best *Node
	for k := range a.nodes {
		n := &a.nodes[k]
		if len(a.here) > 0 && a.here[n.ID] == 0 || len(a.fill(n)) < len(a.left) {
			continue
		}
		if best == nil || n.Free.CPU > best.Free.CPU {
			best = n
		}
	}
	for _, i := range a.left {
		if best != nil {
			a.put(i, best)
		}
	}
	return best != nil || len(a.left) == 0
}

// apart gives each bundle a node of its own. It finds a way where there is one: bundles that were given a node make way for
// others by moving to another node (Kuhn).
func (a *assignment) apart() bool {
	has := matching(a.left, len(a.nodes), func(i, k int) bool {
		return a.here[a.nodes[k].ID] == 0 && a.nodes[k].hasNow(&a.g.Bundles[i])
	})
	for k, i := range has {
		if i >= 0 {
			a.put(i, &a.nodes[k])
		}
	}
	return !slices.Contains(a.at, "")
}

// matching gives as many of the bundles as it can a node of its own, and returns the bundle of each node, -1 for none.
func matching(bundles []int, nodes int, fits func(bundle, node int) bool) (has []int) {
	has = make([]int, nodes)
	for k := range has {
		has[k] = -1
	}
	var seen []bool
	var find func(i int) bool
	find = func(i int) bool {
		for k := range nodes {
			if seen[k] || !fits(i, k) {
				continue
			}
			seen[k] = true
			if has[k] < 0 || find(has[k]) {
				has[k] = i
				return true
			}
		}
		return false
	}
	for _, i := range bundles {
		seen = make([]bool, nodes)
		find(i)
	}
	return has
}
