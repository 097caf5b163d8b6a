package placement_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

const mib = 1 << 20

// The wait for a CPU and the time to move the inputs are weighed against each other.
func TestPlaceByInputs(t *testing.T) {
	idle := func(id raysys.NodeID) placement.Node {
		return placement.Node{ID: id, Worker: true, Total: raysys.Resources{CPU: 2}, Free: raysys.Resources{CPU: 2}, Bandwidth: 1000 * mib}
	}
	busy := func(id raysys.NodeID, queued int) placement.Node { // each task is 10 ms, two at a time
		n := idle(id)
		n.Free.CPU, n.Running, n.Queued, n.MeanTask = 0, 2, queued, 10*time.Millisecond
		return n
	}
	with := func(n placement.Node, f func(*placement.Node)) placement.Node { f(&n); return n }
	at := func(a, b int64) map[raysys.NodeID]int64 {
		return map[raysys.NodeID]int64{"a": a * mib, "b": b * mib}
	}
	for _, c := range []struct {
		name     string
		nodes    []placement.Node
		in       placement.Inputs
		avoid    []raysys.NodeID
		strategy raysys.Strategy
		want     raysys.NodeID
	}{
		{name: "where it is", nodes: []placement.Node{idle("a"), idle("b"), idle("c")}, in: placement.Inputs{Bytes: 50 * mib, At: at(0, 50)}, want: "b"},
		{name: "where more of it is", nodes: []placement.Node{idle("a"), idle("b"), idle("c")}, in: placement.Inputs{Bytes: 50 * mib, At: at(30, 20)}, want: "a"},
		{name: "the queue is shorter than the move", nodes: []placement.Node{idle("a"), busy("b", 4)}, in: placement.Inputs{Bytes: 100 * mib, At: at(0, 100)}, want: "b"},
		{name: "the queue is longer than the move", nodes: []placement.Node{idle("a"), busy("b", 40)}, in: placement.Inputs{Bytes: 100 * mib, At: at(0, 100)}, want: "a"},
		{name: "all are busy", nodes: []placement.Node{busy("a", 40), busy("b", 44)}, in: placement.Inputs{Bytes: 100 * mib, At: at(0, 100)}, want: "b"},
		{
			name: "a slow network", nodes: []placement.Node{with(idle("a"), func(n *placement.Node) { n.Bandwidth = 10 * mib }), busy("b", 40)},
			in: placement.Inputs{Bytes: 100 * mib, At: at(0, 100)}, want: "b",
		},
		{
			name: "an unknown network", nodes: []placement.Node{with(idle("a"), func(n *placement.Node) { n.Bandwidth = 0 }), busy("b", 40)},
			in: placement.Inputs{Bytes: 100 * mib, At: at(0, 100)}, want: "b",
		},
		{name: "nobody has it", nodes: []placement.Node{busy("a", 40), idle("b")}, in: placement.Inputs{Bytes: 100 * mib}, want: "b"},
		{name: "avoided", nodes: []placement.Node{idle("a"), idle("b")}, in: placement.Inputs{Bytes: 50 * mib, At: at(0, 50)}, avoid: []raysys.NodeID{"b"}, want: "a"},
		{
			name: "draining", nodes: []placement.Node{idle("a"), with(idle("b"), func(n *placement.Node) { n.Draining = true })},
			in: placement.Inputs{Bytes: 50 * mib, At: at(0, 50)}, want: "a",
		},
		{
			name: "suspect", nodes: []placement.Node{idle("a"), with(idle("b"), func(n *placement.Node) { n.Suspect = true })},
			in: placement.Inputs{Bytes: 50 * mib, At: at(0, 50)}, want: "a",
		},
		{name: "more on it than there is", nodes: []placement.Node{idle("a"), idle("b")}, in: placement.Inputs{Bytes: mib, At: at(0, 50)}, want: "b"},
		{name: "the one that asks", nodes: []placement.Node{idle("a"), idle("self")}, in: placement.Inputs{Bytes: 50 * mib}, want: "self"},
		{
			name: "another strategy", nodes: []placement.Node{with(idle("a"), func(n *placement.Node) { n.Running = 0 }), with(idle("b"), func(n *placement.Node) { n.Running = 1 })},
			in: placement.Inputs{Bytes: 50 * mib, At: at(0, 50)}, strategy: raysys.Spread, want: "a",
		},
	} {
		for seed := range uint64(20) {
			d, err := placement.Place(placement.NewView("self", c.nodes), placement.Request{
				Kind: placement.Task, Needs: raysys.Resources{CPU: 1}, Inputs: c.in, Avoid: c.avoid, Strategy: c.strategy, Seed: seed,
			})
			if err != nil || d.Node != c.want {
				t.Fatalf("%s: seed %d: %+v, %v; want %s", c.name, seed, d, err, c.want)
			}
		}
	}
}

// Inputs that are small, or a grain's, change nothing.
func TestSmallInputsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, r := anyNodes(t), anyRequest(t)
		view := placement.NewView("n1", nodes)
		r.Inputs = placement.Inputs{}
		d, err := placement.Place(view, r)
		r.Inputs = anyInputs(t, 99<<10)
		if r.Kind == placement.Grain {
			r.Inputs = anyInputs(t, 1<<40)
		}
		e, bad := placement.Place(view, r)
		if d.Node != e.Node || d.Incarnation != e.Incarnation || (err == nil) != (bad == nil) {
			t.Fatalf("%+v, %v without, %+v, %v with inputs", d, err, e, bad)
		}
	})
}

func anyInputs(t *rapid.T, most int64) placement.Inputs {
	in := placement.Inputs{Bytes: rapid.Int64Range(0, most).Draw(t, "bytes"), At: map[raysys.NodeID]int64{}}
	for _, id := range []raysys.NodeID{"n0", "n1", "n2", "n5", "n9"} {
		in.At[id] = rapid.Int64Range(0, in.Bytes).Draw(t, "at")
	}
	return in
}

// No node is chosen when another would have waited less and moved less, over a network that is no slower; and the one that
// is chosen is one that could begin about as soon as any.
func TestNoWorseNodeForInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, r := anyNodes(t), anyRequest(t)
		for i := range nodes {
			nodes[i].Bandwidth = rapid.SampledFrom([]int64{0, 1, 10 * mib, 1 << 30, 1 << 50}).Draw(t, "bandwidth")
		}
		r.Kind, r.Inputs = placement.Task, anyInputs(t, rapid.SampledFrom([]int64{mib, 1 << 30, 1 << 50}).Draw(t, "most"))
		r.Strategy = rapid.SampledFrom([]raysys.Strategy{"", raysys.Balanced}).Draw(t, "strategy")
		r.Inputs.Bytes += 100 << 10
		view := placement.NewView("n1", nodes)
		d, err := placement.Place(view, r)
		if err != nil {
			return
		}
		chosen := view.Find(d.Node)
		missing := func(n *placement.Node) int64 { return r.Inputs.Bytes - r.Inputs.At[n.ID] }
		rate := func(n *placement.Node) int64 {
			if n.Bandwidth == 0 {
				return 256 * mib
			}
			return n.Bandwidth
		}
		for i := range view.Len() {
			n := view.At(i)
			if !can(*n, "n1", r) || liked(*n, r) != liked(*chosen, r) {
				continue
			}
			if missing(n) < missing(chosen) && n.Wait(r.Needs) < chosen.Wait(r.Needs) && rate(n) >= rate(chosen) {
				t.Fatalf("%s waits %v and gets %d bytes; %s would have waited %v and got %d", d.Node, d.Wait, missing(chosen), n.ID, n.Wait(r.Needs), missing(n))
			}
			if start := n.Wait(r.Needs)/8*9 + n.Move(r.Inputs)/8*9 + 2*time.Millisecond; d.Wait+d.Move > start {
				t.Fatalf("%s begins after %v and %v, %s after %v and %v", d.Node, d.Wait, d.Move, n.ID, n.Wait(r.Needs), n.Move(r.Inputs))
			}
		}
		// The order of the nodes changes nothing.
		slices.Reverse(nodes)
		if e, _ := placement.Place(placement.NewView("n1", nodes), r); e.Node != d.Node {
			t.Fatalf("%s, and %s of the nodes in another order", d.Node, e.Node)
		}
	})
}
