package placement

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/raysys/raysys"
)

// Inputs are the values a task reads, as bytes on nodes.
type Inputs struct {
	Bytes int64                   // of all
	At    map[raysys.NodeID]int64 // of those, what each node has
}

const (
	// smallInputs is what does not matter: it is on its way for less time than a decision is wrong by.
	smallInputs = 100 << 10
	// unknownBandwidth stands for the rate of a node that has fetched nothing: that of a 2.5 Gbit network, which is less
	// than the machines of a cluster mostly have. Too low a rate keeps work beside its data a little too stubbornly, until
	// the first megabytes have shown better; too high a rate moves data for nothing.
	unknownBandwidth = 256 << 20
	// longest bounds an estimate so that sums of them do not overflow.
	longest = 1 << 61
)

// moves reports whether the inputs of r count.
func (r *Request) moves() bool { return r.Kind == Task && r.Inputs.Bytes >= smallInputs }

// missing returns the bytes that must be moved to n.
func (in *Inputs) missing(n *Node) int64 { return max(in.Bytes-max(in.At[n.ID], 0), 0) }

// Move estimates how long it takes until the inputs of a task are on the node.
func (n *Node) Move(in Inputs) time.Duration {
	bytes := in.missing(n)
	if bytes == 0 {
		return 0
	}
	rate := float64(n.Bandwidth)
	if rate <= 0 {
		rate = unknownBandwidth
	}
	return time.Duration(min(float64(bytes)/rate*float64(time.Second), longest))
}

// start estimates how long it takes until r begins on node i (Ray, OSDI 2018, section 4.2.2).
func (v *View) start(i int, r *Request) time.Duration {
	n := &v.nodes[i]
	return min(n.Wait(r.Needs), longest) + n.Move(r.Inputs)
}

// maxLooked is how many nodes are compared for a task with inputs. Where more fit it is those that have the most of the inputs,
// the one that asks, and for the rest draws.
const maxLooked = 16

// look appends the nodes among which soonest chooses.
func (v *View) look(r *Request, c *set, d *draw, list []int) []int {
	if c.n <= maxLooked {
		return c.list(list)
	}
	add := func(i int) {
		if !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	if v.local >= 0 && c.has(v.local) {
		add(v.local)
	}
	var at []int
	for id, bytes := range r.Inputs.At {
		if i, ok := v.index[id]; ok && bytes > 0 && c.has(i) {
			at = append(at, i)
		}
	}
	slices.SortFunc(at, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Inputs.missing(&v.nodes[a]), r.Inputs.missing(&v.nodes[b])), cmp.Compare(a, b))
	})
	for _, i := range at[:min(len(at), maxLooked/2)] {
		add(i)
	}
	for len(list) < maxLooked {
		add(c.one(d))
	}
	return list
}

// soonest is the node of list where r begins first. Where that is about the same, the one to which the least is moved, so
// that no node is taken that waits longer and moves more than another; then the one that is preferred, then the one that asks, then the
// less loaded one,
// and the seed decides the rest.
//
// Nodes that ask with different inputs choose differently, and
// what one has sent it counts itself, so that they do not all go to the same node as those would that have none.
func (v *View) soonest(r *Request, list []int) int {
	var buf [maxLooked]option
	options := buf[:0]
	first := time.Duration(math.MaxInt64)
	v.refresh(list...)
	for _, i := range list {
		o := option{i, v.start(i, r), r.Inputs.missing(&v.nodes[i])}
		options = append(options, o)
		first = min(first, o.start)
	}
	limit := first + first/8 + taskSlack
	best := -1
	for k := range options {
		if options[k].start <= limit && (best < 0 || v.fitter(&options[k], &options[best], r)) {
			best = k
		}
	}
	return options[best].node
}

// option is a node on which a task could begin.
type option struct {
	node    int
	start   time.Duration // from now
	missing int64         // bytes
}

// fitter decides between two nodes where r begins at about the same time.
func (v *View) fitter(x, y *option, r *Request) bool {
	a, b := x.node, y.node
	if x.missing != y.missing {
		return x.missing < y.missing
	}
	if len(r.Conditions) > 0 {
		if p, q := r.prefers(&v.nodes[a]), r.prefers(&v.nodes[b]); p != q {
			return p > q
		}
	}
	if v.busier(a, b, r) != v.busier(b, a, r) {
		return v.busier(b, a, r)
	}
	if a == v.local || b == v.local {
		return a == v.local
	}
	h := shifted(r.Seed)
	return mixed(h^v.hashes[a]) > mixed(h^v.hashes[b])
}
