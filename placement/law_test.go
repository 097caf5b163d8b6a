package placement_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

var functions = []string{"", "counter", "square"}

func anyResources(t *rapid.T, name string) raysys.Resources {
	r := raysys.Resources{
		CPU:    float64(rapid.IntRange(0, 4).Draw(t, name+" cpu")),
		GPU:    float64(rapid.IntRange(0, 2).Draw(t, name+" gpu")) / 2,
		Memory: rapid.Int64Range(0, 2).Draw(t, name+" memory"),
	}
	if n := rapid.IntRange(0, 2).Draw(t, name+" licences"); n > 0 {
		r.Custom = map[string]float64{"licence": float64(n)}
	}
	return r
}

func anyLabels(t *rapid.T, name string) map[string]string {
	return rapid.MapOf(rapid.SampledFrom([]string{"zone", "disk"}), rapid.SampledFrom([]string{"", "x"})).Draw(t, name)
}

func anyNodes(t *rapid.T) []placement.Node {
	// At most twice the names of the last field, so that incarnations of one node meet.
	nodes := make([]placement.Node, rapid.IntRange(0, 20).Draw(t, "nodes"))
	for i := range nodes {
		n := placement.Node{
			ID:          raysys.NodeID(fmt.Sprintf("n%d", rapid.IntRange(0, 12).Draw(t, "id"))),
			Incarnation: uint64(i) + 1,
			Total:       anyResources(t, "total"),
			Queued:      rapid.SampledFrom([]int{0, 0, 5, 1_000_000}).Draw(t, "queued"),
			Running:     rapid.IntRange(0, 4).Draw(t, "running"),
			MeanTask:    rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Second, 1000 * time.Hour}).Draw(t, "mean"),
			Grains:      rapid.IntRange(0, 5).Draw(t, "grains"),
			Labels:      anyLabels(t, "labels"),
			Worker:      rapid.IntRange(0, 4).Draw(t, "worker") > 0,
			Suspect:     rapid.IntRange(0, 4).Draw(t, "suspect") == 0,
			Joining:     rapid.IntRange(0, 4).Draw(t, "joining") == 0,
			Draining:    rapid.IntRange(0, 4).Draw(t, "draining") == 0,
		}
		n.Free = n.Total
		if rapid.Bool().Draw(t, "busy") {
			n.Free = raysys.Resources{}
		}
		if table := rapid.SampledFrom([]string{"", "", "counter", "square"}).Draw(t, "table"); table != "" {
			n.Runs = func(f string) bool { return f == table }
		}
		nodes[i] = n
	}
	return nodes
}

func anyRequest(t *rapid.T) placement.Request {
	r := placement.Request{
		Kind:     rapid.SampledFrom([]placement.Kind{placement.Grain, placement.Task}).Draw(t, "kind"),
		Function: rapid.SampledFrom(functions).Draw(t, "function"),
		Key:      rapid.StringN(0, 3, 6).Draw(t, "key"),
		Now:      rapid.Bool().Draw(t, "now"),
		Strategy: rapid.SampledFrom([]raysys.Strategy{"", raysys.Balanced, raysys.PreferLocal, raysys.ByHash, raysys.Spread, "last"}).Draw(t, "strategy"),
		Custom:   custom,
		Seed:     rapid.Uint64().Draw(t, "seed"),
	}
	if rapid.IntRange(0, 3).Draw(t, "reads") == 0 {
		r.Inputs = anyInputs(t, 1<<40)
	}
	if rapid.Bool().Draw(t, "needy") {
		r.Needs = anyResources(t, "needs")
	}
	if rapid.IntRange(0, 3).Draw(t, "picky") == 0 {
		r.Labels = anyLabels(t, "wanted")
	}
	if rapid.IntRange(0, 2).Draw(t, "conditional") == 0 {
		r.Conditions = anyConditions(t)
	}
	for range rapid.IntRange(0, 3).Draw(t, "avoided") {
		r.Avoid = append(r.Avoid, raysys.NodeID(fmt.Sprintf("n%d", rapid.IntRange(0, 12).Draw(t, "avoid"))))
	}
	return r
}

// could and can say the rules again, slowly: whether a node would do when idle, and whether it does now.
func could(n placement.Node, local raysys.NodeID, r placement.Request) bool {
	if !n.Worker && (r.Kind == placement.Grain || n.ID != local) {
		return false
	}
	if r.Function != "" && n.Runs != nil && !n.Runs(r.Function) {
		return false
	}
	for k, v := range r.Labels {
		if has, ok := n.Labels[k]; !ok || has != v {
			return false
		}
	}
	for _, c := range r.Conditions {
		if !c.Soft && !holds(n, c) {
			return false
		}
	}
	return enough(n.Total, r.Needs)
}

func can(n placement.Node, local raysys.NodeID, r placement.Request) bool {
	if !could(n, local, r) || n.Draining || n.Joining && (r.Kind == placement.Grain || n.ID != local) {
		return false
	}
	if r.Kind == placement.Grain && !enough(n.Free, r.Needs) {
		return false
	}
	return !r.Now || n.Queued == 0 && enough(n.Free, r.Needs)
}

func enough(have, want raysys.Resources) bool {
	return have.CPU >= want.CPU && have.GPU >= want.GPU && have.Memory >= want.Memory && have.Custom["licence"] >= want.Custom["licence"]
}

// liked is how gladly a node is taken, 0 best.
func liked(n placement.Node, r placement.Request) int {
	rank := 0
	if slices.Contains(r.Avoid, n.ID) {
		rank++
	}
	if n.Suspect {
		rank += 2
	}
	return rank
}

// Every decision is for a living node that can, of the best rank there is; the error says which of the two states it
// is. Order of the nodes and Explain change nothing, and the view stays as it was.
func TestPlaceKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, r := anyNodes(t), anyRequest(t)
		local := raysys.NodeID(fmt.Sprintf("n%d", rapid.IntRange(0, 13).Draw(t, "local")))
		view := placement.NewView(local, nodes)
		d, err := placement.Place(view, r)

		alive := map[raysys.NodeID]placement.Node{}
		for _, n := range nodes { // incarnations grow
			alive[n.ID] = n
		}
		anyEver, best := false, 4
		for _, n := range alive {
			anyEver = anyEver || could(n, local, r)
			if can(n, local, r) {
				best = min(best, liked(n, r))
			}
		}
		switch {
		case best < 4:
			n, ok := alive[d.Node]
			if err != nil || !ok || n.Incarnation != d.Incarnation || !can(n, local, r) || liked(n, r) != best {
				t.Fatalf("got %+v, %v: the best rank is %d, and %+v", d, err, best, n)
			}
		case anyEver || len(nodes) == 0:
			if !errors.Is(err, placement.ErrNoNode) || !raysys.Retriable(err) || errors.Is(err, raysys.ErrNoCapacity) {
				t.Fatalf("nobody now: %+v, %v", d, err)
			}
		default:
			if !errors.Is(err, raysys.ErrNoCapacity) || raysys.Retriable(err) || errors.Is(err, placement.ErrNoNode) {
				t.Fatalf("nobody ever: %+v, %v", d, err)
			}
		}

		r.Explain = true
		other, err2 := placement.Place(placement.NewView(local, rapid.Permutation(nodes).Draw(t, "order")), r)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("in another order: %v, not %v", err2, err)
		}
		if err == nil && len(other.Reasons) != len(alive)+1 {
			t.Fatalf("%d reasons for %d nodes: %q", len(other.Reasons), len(alive), other.Reasons)
		}
		other.Reasons = nil
		if diff := cmp.Diff(d, other); diff != "" {
			t.Fatalf("in another order, explained:\n%s", diff)
		}
		again, _ := placement.Place(view, r)
		again.Reasons = nil
		if diff := cmp.Diff(d, again); diff != "" {
			t.Fatalf("a second time:\n%s", diff)
		}
	})
}

// What Placed takes Gone gives back, and a view shares nothing with the nodes it was made of.
func TestPlacedAndGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := []placement.Node{worker("a", 4), worker("b", 4)}
		nodes[0].Free.Custom = map[string]float64{"licence": 3}
		r := placement.Request{Needs: anyResources(t, "needs")}
		v := placement.NewView("a", nodes)
		d := placement.Decision{Node: "a", Incarnation: 1}
		times := rapid.IntRange(1, 5).Draw(t, "times")
		for range times {
			v.Placed(r, d)
		}
		if n := v.Find("a"); n.Grains != times || n.Free.CPU != 4-float64(times)*r.Needs.CPU || nodes[0].Free.Custom["licence"] != 3 {
			t.Fatalf("after %d: %+v, and outside %+v", times, n, nodes[0])
		}
		before := copyOf(v.Find("a"))
		v.Placed(r, placement.Decision{Node: "a", Incarnation: 2})
		v.Placed(r, placement.Decision{Node: "c", Incarnation: 1})
		if diff := cmp.Diff(before, *v.Find("a")); diff != "" {
			t.Fatalf("a placement of another incarnation, or of a node that is not there, changed something:\n%s", diff)
		}
		for range times + 1 { // once more than placed
			v.Gone("a", r.Needs)
		}
		if diff := cmp.Diff(nodes[0], *v.Find("a")); diff != "" {
			t.Fatalf("something is left:\n%s", diff)
		}
		r.Kind = placement.Task
		v.Placed(r, d)
		if n := v.Find("a"); n.Queued != 1 || n.Grains != 0 || n.Free.CPU != 4 {
			t.Fatalf("after a task: %+v", n)
		}
	})
}

// copyOf shares nothing with n.
func copyOf(n *placement.Node) placement.Node {
	c := *n
	c.Free.Custom = maps.Clone(n.Free.Custom)
	return c
}

func TestZeroView(t *testing.T) {
	var v placement.View
	for _, s := range []raysys.Strategy{raysys.Balanced, raysys.PreferLocal, raysys.ByHash, raysys.Spread} {
		if d, err := placement.Place(&v, placement.Request{Strategy: s}); !errors.Is(err, placement.ErrNoNode) {
			t.Errorf("%s: %+v, %v", s, d, err)
		}
	}
	if v.Len() != 0 || v.Find("a") != nil {
		t.Error("the zero View has nodes")
	}
}
