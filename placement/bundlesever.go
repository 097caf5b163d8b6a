package placement

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// everAssigns returns why no state of the nodes has room for a group. Without an error there may still be none: it looks at
// each bundle alone, at the sums of what they ask for, and at how many of each size, and devices of each kind, the nodes have room for.
func everAssigns(workers []*Node, g *GroupRequest) error {
	if len(workers) == 0 {
		return fmt.Errorf("%w: a group of %d bundles, and no worker is known yet: start one with raysys node, and try again", ErrNoNode, len(g.Bundles))
	}
	var sum raysys.Resources
	every := make([]int, len(g.Bundles))
	for i := range g.Bundles {
		want := &g.Bundles[i]
		addTo(&sum, want)
		every[i] = i
		if !slices.ContainsFunc(workers, func(n *Node) bool { return n.everHas(want) }) {
			return fmt.Errorf("%w: bundle %d asks for %v, and the most that one node has is %v: ask for less, or add a node that has it",
				raysys.ErrNoCapacity, i, *want, mostOf(workers, want))
		}
	}
	kinds := deviceKinds(g.Bundles)
	switch g.Strategy {
	case StrictPack:
		some := false // node has enough by the sums
		for k, n := range workers {
			if sums(&n.Total, &sum) {
				if lacking(workers[k:k+1], kinds) == nil {
					return nil
				}
				some = true
			}
		}
		if some {
			return fmt.Errorf("%w: %s asks for %v on one node, and none of %d workers has the devices of all bundles: take the same model for all, or %s",
				raysys.ErrNoCapacity, StrictPack, sum, len(workers), Pack)
		}
		return fmt.Errorf("%w: %s asks for %v on one node, and the most that one has is %v: ask for less, or take %s", raysys.ErrNoCapacity, StrictPack, sum, mostOf(workers, &sum), Pack)
	case StrictSpread:
		placed := 0
		for _, i := range matching(every, len(workers), func(i, k int) bool { return workers[k].everHas(&g.Bundles[i]) }) {
			if i >= 0 {
				placed++
			}
		}
		if placed < len(g.Bundles) {
			return fmt.Errorf("%w: %s asks for %d different nodes, and of %d workers %d at most can each have a bundle: ask for fewer bundles, or take %s",
				raysys.ErrNoCapacity, StrictSpread, len(g.Bundles), len(workers), placed, Spread)
		}
	}
	if all, enough := together(workers, &sum); !enough {
		return fmt.Errorf("%w: the bundles ask for %v together, and the nodes have %v: ask for less, or add a node", raysys.ErrNoCapacity, sum, all)
	}
	if i, asked, room := crowded(workers, g.Bundles); asked > room {
		return fmt.Errorf("%w: %d bundles ask for as much as bundle %d does, %v, or more, and all nodes have room for %d such: ask for less, or add a node",
			raysys.ErrNoCapacity, asked, i, g.Bundles[i], room)
	}
	if k := lacking(workers, kinds); k != nil {
		return fmt.Errorf("%w: %d devices are asked for as bundle %d asks for them, %v, and the devices of all nodes are enough for %d: ask for less, or add a node",
			raysys.ErrNoCapacity, k.asked, k.bundle, g.Bundles[k.bundle], k.have(workers))
	}
	return nil
}

// together adds up what the nodes have until that is enough for want.
func together(nodes []*Node, want *raysys.Resources) (all raysys.Resources, enough bool) {
	for _, n := range nodes {
		if addTo(&all, &n.Total); sums(&all, want) {
			return all, true
		}
	}
	return all, false
}

// crowded returns a bundle of which more ask for as much, going by one resource, than the nodes have room for, however idle they are.
func crowded(nodes []*Node, bundles []raysys.Resources) (bundle, asked, room int) {
	amounts := []func(*raysys.Resources) float64{
		func(r *raysys.Resources) float64 { return r.CPU },
		func(r *raysys.Resources) float64 { return float64(r.Memory) },
	}
	custom := map[string]bool{}
	for i := range bundles {
		for name := range bundles[i].Custom {
			custom[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(custom)) {
		amounts = append(amounts, func(r *raysys.Resources) float64 { return r.Custom[name] })
	}
	for _, of := range amounts {
		seen := map[float64]bool{}
		for i := range bundles {
			part := of(&bundles[i])
			if part <= 0 || seen[part] {
				continue
			}
			seen[part] = true
			asked, room = 0, 0
			for j := range bundles {
				if of(&bundles[j]) >= part {
					asked++
				}
			}
			for k := 0; k < len(nodes) && room < asked; k++ {
				room += wholes(of(&nodes[k].Total), part)
			}
			if asked > room {
				return i, asked, room
			}
		}
	}
	return 0, 0, 0
}

// deviceKind is the bundles that need no less of a device than one of them does: of its model, or a narrower one, and as large a
// part. So what does for any of these does for that bundle.
type deviceKind struct {
	bundle int // that one
	needs  raysys.Resources
	asked  int // devices, and parts of one, that they ask for
}

// deviceKinds lists one for each kind of device that bundles ask for.
func deviceKinds(bundles []raysys.Resources) (list []deviceKind) {
	type what struct {
		gpu    float64
		memory int64
		model  string
	}
	seen := map[what]bool{}
	for i := range bundles {
		b := &bundles[i]
		w := what{min(b.GPU, 1), b.GPUMemory, b.GPUModel}
		if b.GPU <= 0 || seen[w] {
			continue
		}
		seen[w] = true
		k := deviceKind{bundle: i, needs: *b}
		for j := range bundles {
			if o := &bundles[j]; min(o.GPU, 1) >= w.gpu && o.GPUMemory >= w.memory && core.OfModel(o.GPUModel, w.model) {
				k.asked += int(max(o.GPU, 1))
			}
		}
		list = append(list, k)
	}
	return list
}

// lacking returns a kind of which the nodes have too few devices however idle they are, or nil.
func lacking(nodes []*Node, kinds []deviceKind) *deviceKind {
	for i := range kinds {
		if kinds[i].asked > kinds[i].have(nodes) {
			return &kinds[i]
		}
	}
	return nil
}

// have is how many parts of the size that the bundle asks for the nodes' devices have, or as many as are asked for where they have more.
func (k *deviceKind) have(nodes []*Node) (parts int) {
	part := min(k.needs.GPU, 1)
	for _, n := range nodes {
		if parts >= k.asked {
			break
		}
		if n.Devices == nil && k.needs.GPUModel == "" && k.needs.GPUMemory == 0 {
			parts += wholes(n.Total.GPU, part)
		}
		for i := range n.Devices {
			d := &n.Devices[i]
			if !d.has(&k.needs, idle) {
				continue
			}
			of := wholes(d.total(), part)
			if k.needs.GPUMemory > 0 {
				of = int(min(int64(of), d.Memory/k.needs.GPUMemory))
			}
			parts += of
		}
	}
	return parts
}

// wholes is how often part is in total, of a node that may say anything.
func wholes(total, part float64) int { return int(min(total/part+slack, math.MaxInt32)) }

// sums reports whether have is enough for a sum of needs.
func sums(have, want *raysys.Resources) bool { return covers(have, want) && want.GPU <= have.GPU+slack }

// addTo adds n to sum, but for what says which devices are meant.
func addTo(sum, n *raysys.Resources) {
	sum.CPU += n.CPU
	sum.GPU += n.GPU
	if sum.Memory += n.Memory; sum.Memory < 0 { // a View may say anything
		sum.Memory = math.MaxInt64
	}
	for k, x := range n.Custom {
		if sum.Custom == nil {
			sum.Custom = map[string]float64{}
		}
		sum.Custom[k] += x
	}
}
