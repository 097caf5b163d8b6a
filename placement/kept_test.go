package placement_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// TestKeptView: a view that is kept over many changes of its nodes decides as a new one does.
func TestKeptView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []placement.Node
		for i := range rapid.IntRange(1, 150).Draw(t, "nodes") { // more than are compared for inputs, and than a word has bits
			n := worker(fmt.Sprintf("n%d", i), float64(1+i%rapid.IntRange(1, 3).Draw(t, "sizes")))
			n.Labels = map[string]string{"zone": fmt.Sprint(i % 3)}
			n.Total.GPU = float64(i % 2)
			n.Free = n.Total
			nodes = append(nodes, n)
		}
		kept := placement.NewView("n1", nodes)
		some := func(name string) raysys.NodeID {
			return nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, name)].ID
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var now []placement.Node
			for i := range kept.Len() {
				now = append(now, copyOf(kept.At(i)))
			}
			r := anyRequest(t)
			for range rapid.IntRange(0, 3).Draw(t, "more avoided") {
				r.Avoid = append(r.Avoid, some("avoided"))
			}
			d, err := placement.Place(kept, r)
			e, want := placement.Place(placement.NewView("n1", now), r)
			if diff := cmp.Diff(e, d); diff != "" || fmt.Sprint(err) != fmt.Sprint(want) {
				t.Fatalf("kept: %v, new: %v\n%s", err, want, diff)
			}
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				if err == nil {
					kept.Placed(r, d)
				}
			case 1:
				kept.Gone(some("left"), anyResources(t, "gone"))
			default:
				id := some("changed")
				if !kept.Update(id, func(n *placement.Node) {
					n.Free.CPU = float64(rapid.IntRange(0, 3).Draw(t, "free"))
					n.Free.GPU = float64(rapid.IntRange(0, 1).Draw(t, "free gpu"))
					n.Queued = rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "queued")
					n.Suspect = rapid.IntRange(0, 3).Draw(t, "suspect") == 0
					n.Draining = rapid.IntRange(0, 3).Draw(t, "draining") == 0
					n.Joining = rapid.IntRange(0, 3).Draw(t, "joining") == 0
				}) {
					t.Fatalf("%s is not in the view", id)
				}
			}
		}
		if kept.Update("nobody", func(*placement.Node) {}) {
			t.Fatal("a node that is not there was updated")
		}
	})
}
