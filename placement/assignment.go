package placement

import (
	"cmp"
	"maps"
	"slices"

	"github.com/raysys/raysys"
)

// assignment is one that is being made. It copies a node when it gives it a bundle, so that of many nodes it copies a few.
type assignment struct {
	g     *GroupRequest
	at    []raysys.NodeID
	rooms []room
	left  []int    // the bundles without a node, in order
	names []string // of the custom resources they ask for
	spare Node     // for fill
}

// room is a node that may take bundles.
type room struct {
	*Node      // what the assignment has left of it: the view's until it is given a bundle, then a copy
	given bool // a bundle
	here  int  // bundles of the group
}

// enter lists the rooms among the workers.
func (a *assignment) enter(v *View, workers []*Node) {
	here := map[raysys.NodeID]int{}
	for _, id := range a.at {
		if id != "" {
			here[id]++
		}
	}
	a.rooms = make([]room, 0, len(workers))
	for _, n := range workers {
		if v.Refresh != nil {
			v.refresh(v.index[n.ID])
		}
		if !n.Joining && !n.Draining && !n.Suspect && !slices.Contains(a.g.Avoid, n.ID) {
			a.rooms = append(a.rooms, room{Node: n, here: here[n.ID]})
		}
	}
}

// order lists the bundles without a node: first those that fewer devices do for, of these the largest. Nodes carve them in that order.
func (a *assignment) order() {
	for i, id := range a.at {
		if id == "" {
			a.left = append(a.left, i)
			a.names = slices.AppendSeq(a.names, maps.Keys(a.g.Bundles[i].Custom))
		}
	}
	slices.Sort(a.names)
	a.names = slices.Compact(a.names)
	slices.SortStableFunc(a.left, func(i, j int) int {
		x, y := &a.g.Bundles[i], &a.g.Bundles[j]
		return cmp.Or(cmp.Compare(len(y.GPUModel), len(x.GPUModel)), cmp.Compare(y.GPUMemory, x.GPUMemory), cmp.Compare(y.GPU, x.GPU),
			cmp.Compare(len(y.Custom), len(x.Custom)), cmp.Compare(y.CPU, x.CPU), cmp.Compare(y.Memory, x.Memory))
	})
}

// put gives bundle i to a node, which has room.
func (a *assignment) put(i int, r *room) {
	if !r.given {
		r.Node, r.given = r.copied(), true
	}
	r.release(&a.g.Bundles[i], -1)
	a.at[i] = r.ID
	r.here++
}

// trial is a copy of what n has of all that bundles ask for. The next one takes its place.
func (a *assignment) trial(n *Node) *Node {
	c := &a.spare
	devices, custom := c.Devices[:0], c.Free.Custom
	c.Total, c.Free, c.Devices = n.Total, n.Free, nil
	if n.Devices != nil { // nil: only their number is known
		c.Devices = append(devices, n.Devices...)
	}
	if c.Free.Custom = custom; custom == nil {
		c.Free.Custom = map[string]float64{}
	}
	for _, name := range a.names {
		c.Free.Custom[name] = n.Free.Custom[name]
	}
	return c
}

// fill appends to list which of the bundles left n has room for together, in order.
func (a *assignment) fill(n *Node, list []int) []int {
	for k, i := range a.left {
		b := &a.g.Bundles[i]
		if !n.hasNow(b) {
			continue
		}
		if list = append(list, i); k == len(a.left)-1 {
			break
		}
		if len(list) == 1 {
			n = a.trial(n)
		}
		n.release(b, -1)
	}
	return list
}
