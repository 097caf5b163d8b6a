package placement_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// plain assigns a group slowly: it copies all nodes, and asks each in turn what it has room for.
type plain struct {
	bundles []raysys.Resources
	at      []raysys.NodeID
	nodes   []placement.Node
	left    []int
}

func newPlain(v *placement.View, g placement.GroupRequest) *plain {
	p := &plain{bundles: g.Bundles, at: make([]raysys.NodeID, len(g.Bundles))}
	copy(p.at, g.At)
	for i := range v.Len() {
		n := copyOf(v.At(i))
		if v.Refresh != nil {
			v.Refresh(&n)
		}
		if n.Worker && !n.Joining && !n.Draining && !n.Suspect && !slices.Contains(g.Avoid, n.ID) {
			p.nodes = append(p.nodes, n)
		}
	}
	for i, id := range p.at {
		if id == "" {
			p.left = append(p.left, i)
		}
	}
	slices.SortStableFunc(p.left, func(i, j int) int {
		x, y := p.bundles[i], p.bundles[j]
		return cmp.Or(cmp.Compare(y.GPU, x.GPU), cmp.Compare(len(y.Custom), len(x.Custom)), cmp.Compare(y.CPU, x.CPU), cmp.Compare(y.Memory, x.Memory))
	})
	return p
}

func (p *plain) here(n *placement.Node) (bundles int) {
	for _, id := range p.at {
		if id == n.ID {
			bundles++
		}
	}
	return bundles
}

func (p *plain) put(i int, n *placement.Node) {
	n.Take(p.bundles[i])
	p.at[i] = n.ID
}

func (p *plain) fill(n *placement.Node) (list []int) {
	c := copyOf(n)
	for _, i := range p.left {
		if p.at[i] == "" && enough(c.Free, p.bundles[i]) {
			c.Take(p.bundles[i])
			list = append(list, i)
		}
	}
	return list
}

// best returns the node that comes first in an order, of those that will do.
func (p *plain) best(does func(n *placement.Node) bool, order func(a, b *placement.Node) int) (best *placement.Node) {
	for k := range p.nodes {
		if n := &p.nodes[k]; does(n) && (best == nil || order(n, best) < 0) {
			best = n
		}
	}
	return best
}

func (p *plain) assign(s placement.GroupStrategy) []raysys.NodeID {
	mostCPU := func(a, b *placement.Node) int { return cmp.Compare(b.Free.CPU, a.Free.CPU) }
	switch s {
	case placement.StrictPack:
		some := len(p.left) < len(p.at)
		best := p.best(func(n *placement.Node) bool { return (!some || p.here(n) > 0) && len(p.fill(n)) == len(p.left) }, mostCPU)
		for _, i := range p.left {
			if best != nil {
				p.put(i, best)
			}
		}
	case placement.Spread:
		for _, i := range p.left {
			best := p.best(func(n *placement.Node) bool { return enough(n.Free, p.bundles[i]) },
				func(a, b *placement.Node) int { return cmp.Or(cmp.Compare(p.here(a), p.here(b)), mostCPU(a, b)) })
			if best == nil {
				return nil
			}
			p.put(i, best)
		}
	case placement.StrictSpread:
		has := map[int]int{} // node to bundle
		for _, i := range p.left {
			seen := map[int]bool{}
			var find func(i int) bool
			find = func(i int) bool {
				for k := range p.nodes {
					if n := &p.nodes[k]; seen[k] || p.here(n) > 0 || !enough(n.Free, p.bundles[i]) {
						continue
					}
					seen[k] = true
					if other, taken := has[k]; !taken || find(other) {
						has[k] = i
						return true
					}
				}
				return false
			}
			find(i)
		}
		for k, i := range has {
			p.put(i, &p.nodes[k])
		}
	default:
		for slices.Contains(p.at, "") {
			best := p.best(func(n *placement.Node) bool { return len(p.fill(n)) > 0 }, func(a, b *placement.Node) int {
				return cmp.Or(cmp.Compare(min(p.here(b), 1), min(p.here(a), 1)), cmp.Compare(len(p.fill(b)), len(p.fill(a))), -mostCPU(a, b))
			})
			if best == nil {
				return nil
			}
			for _, i := range p.fill(best) {
				p.put(i, best)
			}
		}
	}
	if slices.Contains(p.at, "") {
		return nil
	}
	return p.at
}

// TestAssignedPlainly: each strategy assigns as one does that copies all nodes and leaves none out, and leaves the view as it was.
func TestAssignedPlainly(t *testing.T) {
	placed, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var nodes []placement.Node
		for i := range rapid.IntRange(1, 60).Draw(t, "nodes") {
			n := worker(fmt.Sprintf("n%d", i), float64(rapid.IntRange(1, 8).Draw(t, "cpus")))
			n.Total.GPU, n.Total.Memory = float64(i%2), int64(i%3)
			n.Total.Custom = map[string]float64{"licence": float64(i % 4)}
			n.Free = n.Total
			n.Free.CPU = float64(rapid.IntRange(0, int(n.Total.CPU)).Draw(t, "free"))
			n.Suspect = rapid.IntRange(0, 5).Draw(t, "suspect") == 0
			n.Worker = i == 0 || rapid.IntRange(0, 5).Draw(t, "worker") > 0
			nodes = append(nodes, n)
		}
		v := placement.NewView("", nodes)
		if rapid.Bool().Draw(t, "refreshed") {
			v.Refresh = func(n *placement.Node) { n.Free.CPU = min(n.Free.CPU, 4) }
		}
		g := placement.GroupRequest{Strategy: rapid.SampledFrom(placement.GroupStrategies).Draw(t, "strategy")}
		for range rapid.IntRange(1, 6).Draw(t, "bundles") {
			g.Bundles = append(g.Bundles, anyResources(t, "bundle"))
			at := raysys.NodeID("")
			if rapid.IntRange(0, 5).Draw(t, "placed") == 0 {
				at = nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "at")].ID
			}
			g.At = append(g.At, at)
		}
		for range rapid.IntRange(0, 2).Draw(t, "avoided") {
			g.Avoid = append(g.Avoid, nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "avoid")].ID)
		}
		want := newPlain(v, g).assign(g.Strategy)
		got, err := placement.Assign(v, g)
		anew := !slices.ContainsFunc(g.At, func(id raysys.NodeID) bool { return id != "" })
		if never := errors.Is(err, raysys.ErrNoCapacity); !slices.Equal(got, want) && (anew || !never) { // what has a node may be where it does not fit
			t.Fatalf("%s of %v at %q: %q, %v, want %q", g.Strategy, g.Bundles, g.At, got, err, want)
		}
		if err == nil {
			placed++
		} else {
			none++
		}
		for i := range nodes {
			n, now := copyOf(&nodes[i]), *v.Find(nodes[i].ID)
			if v.Refresh != nil {
				v.Refresh(&n)
				v.Refresh(&now)
			}
			if diff := gocmp.Diff(n, now); diff != "" {
				t.Fatalf("an assignment changed the view:\n%s", diff)
			}
		}
	})
	if placed == 0 || none == 0 {
		t.Errorf("%d groups are placed and %d are not: the test shows nothing", placed, none)
	}
}
