package placement

import (
	"cmp"
	"maps"
	"slices"

	"github.com/raysys/raysys"
)

// View is the nodes as its owner knows them, in a form that Place can use many thousand times per second. Make a new
// one when a node comes or goes; correct what is known of one with Update. Place keeps in it what it finds, so one goroutine
// uses a View at a time. The zero View has no nodes.
type View struct {
	local   int // index of the node that asks unless a request says another, -1 when it is not among them
	nodes   []Node
	hashes  []uint64 // of the IDs, shifted
	index   map[raysys.NodeID]int
	upTo    []uint64 // at i the sum of the sizes of the nodes before i, at the end of all; nil where all are equal
	counts  [2][]int // of the grains and of the tasks of each node
	largest float64  // of the sizes
	shapes  map[shapeKey]*shape
	turn    int // of the nodes whose counts are read anew for Spread

	// Refresh, where set, corrects the counts of a node before a decision compares them with another's: what changes too often
	// for Update. Which nodes have room, for a grain or a task with Now, is known from Update alone. Spread compares
	// all nodes, and reads the counts of a few of many anew for each decision.
	Refresh func(*Node)
}

// NewView returns the view of local, which need not be among the nodes. The order of the nodes does not matter. Of two
// incarnations of a node the later counts: the earlier is dead.
func NewView(local raysys.NodeID, nodes []Node) *View {
	v := &View{local: -1, nodes: slices.Clone(nodes)}
	slices.SortFunc(v.nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.Incarnation, a.Incarnation))
	})
	v.nodes = slices.CompactFunc(v.nodes, func(a, b Node) bool { return a.ID == b.ID })
	v.index = make(map[raysys.NodeID]int, len(v.nodes))
	v.counts = [2][]int{make([]int, len(v.nodes)), make([]int, len(v.nodes))}
	even := true
	for i := range v.nodes {
		n := &v.nodes[i]
		n.Free.Custom = maps.Clone(n.Free.Custom) // Placed and Gone change it
		n.Devices = slices.Clone(n.Devices)
		v.index[n.ID] = i
		v.hashes = append(v.hashes, shifted(hashString(string(n.ID))))
		even = even && n.milli() == v.nodes[0].milli()
		v.largest = max(v.largest, n.size())
		v.count(i)
	}
	if i, ok := v.index[local]; ok {
		v.local = i
	}
	if !even {
		v.upTo = make([]uint64, 1, len(v.nodes)+1)
		for i := range v.nodes {
			v.upTo = append(v.upTo, v.upTo[i]+v.nodes[i].milli())
		}
	}
	return v
}

// Len returns the number of nodes.
func (v *View) Len() int { return len(v.nodes) }

// At returns node i in the order of their IDs, to read.
func (v *View) At(i int) *Node { return &v.nodes[i] }

// Find returns the node named id, to read, or nil.
func (v *View) Find(id raysys.NodeID) *Node {
	if i, ok := v.index[id]; ok {
		return &v.nodes[i]
	}
	return nil
}

// refresh brings the counts of nodes up to date.
func (v *View) refresh(nodes ...int) {
	if v.Refresh == nil {
		return
	}
	for _, i := range nodes {
		v.Refresh(&v.nodes[i])
		v.count(i)
	}
}

// count enters what Spread compares of node i.
func (v *View) count(i int) {
	n := &v.nodes[i]
	v.counts[Grain][i], v.counts[Task][i] = n.Grains, n.Queued+n.Running
}

// Placed enters what a decision will do to its node: one grain more and its needs taken, or one task more in the queue.
func (v *View) Placed(r Request, d Decision) {
	n := v.Find(d.Node)
	if n == nil || n.Incarnation != d.Incarnation {
		return
	}
	if r.Kind == Task {
		n.Queued++
	} else {
		n.Grains++
		n.release(&r.Needs, -1)
	}
	v.changed(v.index[d.Node])
}

// Gone enters that a grain with these needs left the node.
func (v *View) Gone(id raysys.NodeID, needs raysys.Resources) {
	n := v.Find(id)
	if n == nil || n.Grains == 0 {
		return
	}
	n.Grains--
	n.release(&needs, 1)
	v.changed(v.index[id])
}

// Take takes needs from what is free on the node.
func (n *Node) Take(needs raysys.Resources) { n.release(&needs, -1) }

// release adds sign times needs to the free resources.
func (n *Node) release(needs *raysys.Resources, sign float64) {
	n.Free.CPU += sign * needs.CPU
	n.Free.GPU += sign * needs.GPU
	n.enterDevices(needs, sign)
	n.Free.Memory += int64(sign) * needs.Memory
	for name, amount := range needs.Custom {
		if n.Free.Custom == nil {
			n.Free.Custom = map[string]float64{}
		}
		n.Free.Custom[name] += sign * amount
	}
}
