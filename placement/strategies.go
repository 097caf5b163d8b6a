package placement

import (
	"math"

	"github.com/raysys/raysys"
)

// hashed is rendezvous hashing (Thaler, Ravishankar 1998): each node gets a score from its name and the key, the highest
// wins. When a node goes only its keys move, and when it comes back, under any incarnation, the same ones return. Where
// sizes differ the scores are weighted by them (w/-ln u: Schindelhauer, Schomaker 2005). 200,000 keys come out within 1.04 of each
// other over 16 equal nodes; the fewer the keys per node, the wider: it does not look at counts.
func (v *View) hashed(key string, list []int) int {
	h := hashString(key)
	best := list[0]
	if v.upTo == nil {
		top := uint64(0)
		for _, i := range list {
			if s := mix64(h ^ v.hashes[i]); s >= top {
				best, top = i, s
			}
		}
		return best
	}
	top := -1.0
	for _, i := range list {
		u := (float64(mix64(h^v.hashes[i])>>11) + 0.5) / (1 << 53) // in (0, 1)
		if s := v.nodes[i].size() / -math.Log(u); s > top {
			best, top = i, s
		}
	}
	return best
}

// spread is the node with the fewest grains, or tasks, of all; the seed decides among equals.
func (v *View) spread(r *Request, list []int) int {
	count := func(i int) int {
		if r.Kind == Task {
			return v.nodes[i].Queued + v.nodes[i].Running
		}
		return v.nodes[i].Grains
	}
	v.refresh(list...)
	best, least, top := list[0], math.MaxInt, uint64(0)
	for _, i := range list {
		n, s := count(i), mix64(r.Seed^v.hashes[i])
		if n < least || n == least && s > top {
			best, least, top = i, n, s
		}
	}
	return best
}

// stay is the local node where it may be taken and is not busier than the better of two others: the way to another
// node costs time too, so in doubt work stays.
func (v *View) stay(r *Request, other int) int {
	if v.local < 0 || v.exclude(v.local, r) != fit || v.reserve(v.local, r.Avoid) > v.reserve(other, r.Avoid) {
		return other
	}
	v.refresh(v.local, other)
	slack := grainSlack
	if r.Kind == Task {
		slack = taskSlack
	}
	x, y := v.nodes[v.local].Wait(r.Needs), v.nodes[other].Wait(r.Needs)
	if x > y+y/8+slack {
		return other
	}
	return v.local
}

// builtin lists the strategies that need no registration.
var builtin = [...]raysys.Strategy{raysys.Balanced, raysys.PreferLocal, raysys.ByHash, raysys.Spread}
