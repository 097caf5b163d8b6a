package placement_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// mix and hash say again what the package hashes with: a key must come to the same node with each build.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hash(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h)
}

// plainly chooses among nodes by ByHash or Spread, slowly. even says that all nodes of the view, others too, have one size.
func plainly(r placement.Request, nodes []placement.Node, even bool) (best raysys.NodeID) {
	top, fewest := math.Inf(-1), math.MaxInt
	first := uint64(0) // of those with the score, or the number
	for _, n := range nodes {
		if r.Strategy == raysys.ByHash {
			x := mix(hash(r.Key) ^ hash(string(n.ID)))
			score := 0.0
			if !even {
				score = max(n.Total.CPU, 1) / -math.Log((float64(x>>11)+0.5)/(1<<53))
			}
			if score > top || even && x > first {
				best, top, first = n.ID, score, x
			}
			continue
		}
		count, x := n.Grains, mix(r.Seed^hash(string(n.ID)))
		if r.Kind == placement.Task {
			count = n.Queued + n.Running
		}
		if count < fewest || count == fewest && x > first {
			best, fewest, first = n.ID, count, x
		}
	}
	return best
}

// TestChosenPlainly: of a view that is kept while its nodes change, ByHash and Spread choose the node that a plain look at all nodes
// gives: of those that can, of the best rank, of these where a grain has preferences those that meet the most of them.
func TestChosenPlainly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]placement.Node, rapid.IntRange(1, 150).Draw(t, "nodes"))
		cpus := rapid.SampledFrom([][]float64{{4}, {4}, {0.5, 2, 4}, {1, 1, 1, 1, 300}}).Draw(t, "sizes")
		even := true
		for i := range nodes {
			nodes[i] = worker(fmt.Sprintf("n%d", i), cpus[i%len(cpus)])
			nodes[i].Labels = map[string]string{"zone": []string{"", "x", "y"}[i%3]}
			even = even && max(cpus[i%len(cpus)], 1) == max(cpus[0], 1)
		}
		v := placement.NewView("", nodes)
		reported := map[raysys.NodeID]int{}                        // tasks that run, where they are known but to Refresh
		if len(nodes) <= 16 && rapid.Bool().Draw(t, "refreshed") { // of more, TestSpreadOfMany
			v.Refresh = func(n *placement.Node) { n.Running = reported[n.ID] }
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			r := anyRequest(t)
			r.Strategy = rapid.SampledFrom([]raysys.Strategy{raysys.ByHash, raysys.Spread}).Draw(t, "by")
			r.Labels, r.Inputs = nil, placement.Inputs{}
			if r.Kind == placement.Task {
				r.Conditions = slices.DeleteFunc(r.Conditions, func(c placement.Condition) bool { return c.Soft })
			}
			best := 4
			var fit []placement.Node
			for i := range v.Len() {
				n := copyOf(v.At(i))
				if v.Refresh != nil {
					v.Refresh(&n)
				}
				if !can(n, "", r) || liked(n, r) > best {
					continue
				}
				if l := liked(n, r); l < best {
					best, fit = l, nil
				}
				fit = append(fit, n)
			}
			for _, c := range r.Conditions {
				not := func(n placement.Node) bool { return !holds(n, c) }
				if meet := slices.DeleteFunc(slices.Clone(fit), not); c.Soft && best == 0 && len(meet) > 0 {
					fit = meet
				}
			}
			d, err := placement.Place(v, r)
			if want := plainly(r, fit, even); d.Node != want {
				t.Fatalf("%s of %s %q with seed %d: %q, %v, want %q", r.Strategy, r.Kind, r.Key, r.Seed, d.Node, err, want)
			}
			id := nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "changed")].ID
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				if err == nil {
					v.Placed(r, d)
				}
			case 1:
				v.Gone(id, anyResources(t, "gone"))
			case 2:
				reported[id]++
			default:
				v.Update(id, func(n *placement.Node) {
					n.Free.CPU = float64(rapid.IntRange(0, 3).Draw(t, "free"))
					n.Grains = rapid.IntRange(0, 3).Draw(t, "grains")
					n.Running = rapid.IntRange(0, 3).Draw(t, "running")
					n.Queued = rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "queued")
					n.Suspect = rapid.IntRange(0, 3).Draw(t, "suspect") == 0
					n.Draining = rapid.IntRange(0, 3).Draw(t, "draining") == 0
				})
			}
		}
	})
}

// TestManyChosenPlainly: of thousands of nodes of different sizes, for which ByHash leaves out most scores, keys come to the node with the
// highest.
func TestManyChosenPlainly(t *testing.T) {
	nodes := equalNodes(3000)
	for i := range nodes {
		nodes[i].Total.CPU = float64(1 + i%7*i%64)
	}
	v := placement.NewView("", nodes)
	for k := range 200 {
		r := placement.Request{Strategy: raysys.ByHash, Key: fmt.Sprintf("key-%d", k)}
		if d, err := placement.Place(v, r); err != nil || d.Node != plainly(r, nodes, false) {
			t.Errorf("%s is on %s, %v, want %s", r.Key, d.Node, err, plainly(r, nodes, false))
		}
	}
}
