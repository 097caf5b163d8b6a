package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// anyConditions draws conditions on names n0 to n12 and on the labels of anyLabels, hard and soft.
func anyConditions(t *rapid.T) (list []placement.Condition) {
	for range rapid.IntRange(1, 4).Draw(t, "conditions") {
		c := placement.Condition{Not: rapid.Bool().Draw(t, "not"), Soft: rapid.Bool().Draw(t, "soft")}
		if rapid.Bool().Draw(t, "about a label") {
			c.Label = rapid.SampledFrom([]string{"zone", "disk"}).Draw(t, "label")
			c.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "y"}), 0, 2).Draw(t, "values")
		} else {
			for range rapid.IntRange(0, 6).Draw(t, "named") {
				c.Nodes = append(c.Nodes, raysys.NodeID(fmt.Sprintf("n%d", rapid.IntRange(0, 12).Draw(t, "name"))))
			}
		}
		list = append(list, c)
	}
	return list
}

// holds says the rule again.
func holds(n placement.Node, c placement.Condition) bool {
	in := slices.Contains(c.Nodes, n.ID)
	if c.Label != "" {
		value, has := n.Labels[c.Label]
		in = has && (len(c.Values) == 0 || slices.Contains(c.Values, value))
	}
	return in != c.Not
}

// TestSoftConditions: a task with preferences begins at once if it can on some sound node, and there on one that meets the first
// preference that any of those meets, and so on. A grain is on such a node too. That hard conditions are never broken is among what
// TestPlaceKeepsTheRules looks at. There may be more nodes than are compared.
func TestSoftConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []placement.Node
		for i := range rapid.IntRange(1, 60).Draw(t, "nodes") {
			n := worker(fmt.Sprintf("n%d", i), 2)
			n.Labels = anyLabels(t, "labels")
			n.Suspect = rapid.IntRange(0, 4).Draw(t, "suspect") == 0
			if rapid.IntRange(0, 5).Draw(t, "idle") > 0 {
				n.Free.CPU, n.Running, n.Queued = 0, 2, rapid.IntRange(0, 3).Draw(t, "queued")
			}
			nodes = append(nodes, n)
		}
		r := anyRequest(t)
		r.Function, r.Now, r.Needs, r.Inputs = "", false, raysys.Resources{CPU: 1}, placement.Inputs{}
		r.Conditions = anyConditions(t)

		d, err := placement.Place(placement.NewView("n1", nodes), r)
		meets := func(n placement.Node) (bits int) { // the first condition is the highest bit
			for _, c := range r.Conditions {
				if c.Soft {
					bits *= 2
					if holds(n, c) {
						bits++
					}
				}
			}
			return bits
		}
		best, atOnce := -1, func(n placement.Node) bool {
			return can(n, "n1", r) && liked(n, r) == 0 && n.Queued == 0 && n.Free.CPU >= 1
		}
		for _, n := range nodes {
			if atOnce(n) {
				best = max(best, meets(n))
			}
		}
		if best < 0 {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		n := nodes[slices.IndexFunc(nodes, func(n placement.Node) bool { return n.ID == d.Node })]
		soft := slices.ContainsFunc(r.Conditions, func(c placement.Condition) bool { return c.Soft })
		if soft && (!atOnce(n) || meets(n) != best) {
			t.Fatalf("on %s, which meets the preferences %b and where it waits for %v: it begins at once where %b are met", n.ID, meets(n), d.Wait, best)
		}
	})
}

// TestPreferenceRefreshed: what Refresh says counts, also where the view has more nodes than are compared.
func TestPreferenceRefreshed(t *testing.T) {
	nodes := equalNodes(200)
	v := placement.NewView("node-1", nodes)
	taken := map[raysys.NodeID]int{}
	v.Refresh = func(n *placement.Node) { n.Free.CPU = n.Total.CPU - float64(taken[n.ID]) }
	preferred := placement.Condition{Soft: true, Nodes: []raysys.NodeID{"node-5", "node-7"}}
	r := placement.Request{Kind: placement.Task, Needs: raysys.Resources{CPU: 1}, Conditions: []placement.Condition{preferred}}
	cpus := int(nodes[0].Total.CPU)
	for k := range 200 * cpus {
		r.Seed = seed(k)
		d, err := placement.Place(v, r)
		if err != nil {
			t.Fatal(err)
		}
		if k < 2*cpus && !slices.Contains(preferred.Nodes, d.Node) {
			t.Fatalf("task %d is on %s while a preferred node is idle", k, d.Node)
		}
		if taken[d.Node]++; taken[d.Node] > cpus {
			t.Fatalf("task %d waits on %s while another node is idle", k, d.Node)
		}
	}
}
