package placement_test

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// TestSpreadOfMany: where Refresh alone knows what runs, and there are more nodes than are read for each decision, tasks that stay are one
// for each node; those that end come to all nodes, too, also after many ended of which no report tells; and no node is taken
// for idle twice while others are.
func TestSpreadOfMany(t *testing.T) {
	const n = 100
	runs := map[raysys.NodeID]int{}
	v := placement.NewView("node-3", equalNodes(n))
	v.Refresh = func(n *placement.Node) { n.Running = runs[n.ID] }
	k := 0
	place := func() raysys.NodeID {
		k++
		d, err := placement.Place(v, placement.Request{Kind: placement.Task, Strategy: raysys.Spread, Seed: seed(k)})
		if err != nil {
			t.Fatal(err)
		}
		return d.Node
	}
	for range 5 * n {
		runs[place()]++
	}
	for id, have := range runs {
		if have != 5 {
			t.Errorf("node %s has %d tasks, want 5", id, have)
		}
	}
	clear(runs)
	came := map[raysys.NodeID]int{}
	for range 20 * n {
		came[place()]++ // and ends
	}
	for i := range v.Len() {
		if id := v.At(i).ID; came[id] < 10 || came[id] > 40 {
			t.Errorf("to node %s came %d tasks, want some 20", id, came[id])
		}
	}
	for i := range v.Len() {
		if i%2 == 0 {
			runs[v.At(i).ID] = 50 // of others
		}
	}
	wrong := map[raysys.NodeID]int{}
	for range 10 * n {
		if id := place(); runs[id] > 0 {
			wrong[id]++
		}
	}
	for id, times := range wrong {
		if times > 1 {
			t.Errorf("node %s, which is busy, was chosen %d times", id, times)
		}
	}
}
