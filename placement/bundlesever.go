package placement

import (
	"fmt"

	"github.com/raysys/raysys"
)

// everAssigns returns why no state of the nodes has room for a group. Without an error there may still be none: it looks at
// each bundle alone, and at the sums of what they ask for.
func (v *View) everAssigns(g *GroupRequest) error {
	var workers []*Node
	var all raysys.Resources
	for i := range v.nodes {
		if n := &v.nodes[i]; n.hosts(g) {
			workers = append(workers, n)
			addTo(&all, &n.Total)
		}
	}
	if len(workers) == 0 {
		return fmt.Errorf("%w: a group of %d bundles, and no worker is known yet: start one with raysys node, and try again", ErrNoNode, len(g.Bundles))
	}
	everHas := func(n *Node, want *raysys.Resources) bool { return covers(&n.Total, want) && n.hasDevices(want, idle) }
	var sum raysys.Resources
	every := make([]int, len(g.Bundles))
	for i := range g.Bundles {
		want := &g.Bundles[i]
		addTo(&sum, want)
		every[i] = i
		var most raysys.Resources
		fits := false
		for _, n := range workers {
			fits = fits || everHas(n, want)
			n.atMost(want, &most)
		}
		if !fits {
			return fmt.Errorf("%w: bundle %d asks for %v, and the most that one node has is %v: ask for less, or add a node that has it", raysys.ErrNoCapacity, i, *want, most)
		}
	}
	switch g.Strategy {
	case StrictPack:
		var most raysys.Resources
		for _, n := range workers {
			if sums(&n.Total, &sum) {
				return nil
			}
			n.atMost(&sum, &most)
		}
		return fmt.Errorf("%w: %s asks for %v on one node, and the most that one has is %v: ask for less, or take %s", raysys.ErrNoCapacity, StrictPack, sum, most, Pack)
	case StrictSpread:
		placed := 0
		for _, i := range matching(every, len(workers), func(i, k int) bool { return everHas(workers[k], &g.Bundles[i]) }) {
			if i >= 0 {
				placed++
			}
		}
		if placed < len(g.Bundles) {
			return fmt.Errorf("%w: %s asks for %d different nodes, and of %d workers %d at most can each have a bundle: ask for fewer bundles, or take %s",
				raysys.ErrNoCapacity, StrictSpread, len(g.Bundles), len(workers), placed, Spread)
		}
	}
	if !sums(&all, &sum) {
		return fmt.Errorf("%w: the bundles ask for %v together, and the nodes have %v: ask for less, or add a node", raysys.ErrNoCapacity, sum, all)
	}
	return nil
}

// sums reports whether have is enough for a sum of needs.
func sums(have, want *raysys.Resources) bool { return covers(have, want) && want.GPU <= have.GPU+slack }

// addTo adds n to sum, but for what says which devices are meant.
func addTo(sum, n *raysys.Resources) {
	sum.CPU += n.CPU
	sum.GPU += n.GPU
	sum.Memory += n.Memory
	for k, x := range n.Custom {
		if sum.Custom == nil {
			sum.Custom = map[string]float64{}
		}
		sum.Custom[k] += x
	}
}
