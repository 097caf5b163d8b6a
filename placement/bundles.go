package placement

import (
	"cmp"
	"fmt"
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
	workers := make([]*Node, 0, len(v.nodes))
	for i := range v.nodes {
		if n := &v.nodes[i]; n.hosts(&g) {
			workers = append(workers, n)
		}
	}
	if err := everAssigns(workers, &g); err != nil {
		return nil, err
	}
	a := assignment{g: &g, at: at}
	a.order()
	a.enter(v, workers)
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

// pack gives bundles to the nodes that have some of the group, then to the node with room for the most, and so on. Of nodes
// with room for as many it takes the one with the least CPU free, so that large nodes stay for large groups.
func (a *assignment) pack() bool {
	var most, list []int
	for len(a.left) > 0 {
		var best *room
		better := func(r *room, bundles int) bool {
			return best == nil || cmp.Or(-cmp.Compare(min(r.here, 1), min(best.here, 1)), -cmp.Compare(bundles, len(most)), cmp.Compare(r.Free.CPU, best.Free.CPU)) < 0
		}
		for k := range a.rooms {
			r := &a.rooms[k]
			if !better(r, len(a.left)) {
				continue // even if it has room for all
			}
			if list = a.fill(r.Node, list[:0]); len(list) > 0 && better(r, len(list)) {
				best = r
				most, list = list, most
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
		var best *room
		for k := range a.rooms {
			r := &a.rooms[k]
			if (best == nil || cmp.Or(cmp.Compare(r.here, best.here), -cmp.Compare(r.Free.CPU, best.Free.CPU)) < 0) && r.hasNow(&a.g.Bundles[i]) {
				best = r
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
	var best *room
	var list []int
	some := len(a.left) < len(a.at)
	for k := range a.rooms {
		r := &a.rooms[k]
		if some && r.here == 0 || best != nil && r.Free.CPU <= best.Free.CPU {
			continue
		}
		if list = a.fill(r.Node, list[:0]); len(list) == len(a.left) {
			best = r
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
	has := matching(a.left, len(a.rooms), func(i, k int) bool {
		return a.rooms[k].here == 0 && a.rooms[k].hasNow(&a.g.Bundles[i])
	})
	for k, i := range has {
		if i >= 0 {
			a.put(i, &a.rooms[k])
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
