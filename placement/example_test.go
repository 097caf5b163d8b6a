package placement_test

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// Two grains, each with an accelerator of its own: the first two find one, the third has to wait.
func ExamplePlace() {
	gpus := raysys.Resources{CPU: 8, GPU: 1}
	v := placement.NewView("a", []placement.Node{
		{ID: "a", Worker: true, Total: gpus, Free: gpus},
		{ID: "b", Worker: true, Total: gpus, Free: gpus},
		{ID: "c", Worker: true, Total: raysys.Resources{CPU: 64}},
	})
	r := placement.Request{Kind: placement.Grain, Key: "trainer", Needs: raysys.Resources{GPU: 1}, Strategy: raysys.PreferLocal}
	for range 3 {
		d, err := placement.Place(v, r)
		if err != nil {
			fmt.Println(errors.Is(err, placement.ErrNoNode), err)
			continue
		}
		fmt.Println(d.Node)
		v.Placed(r, d)
	}
	// Output:
	// a
	// b
	// true no node can take it now: grain "trainer": 1 node: less than GPU 1 even when idle (the most that one has: no GPU); 2 nodes: less than GPU 1 free: try again later
}

// A strategy of one's own: the node with the most free memory. A program gives it a name in system.ClusterConfig.Strategies, and
// tasks and grains name it with raysys.Placement("roomiest").
func ExampleStrategy() {
	roomiest := func(_ placement.Request, nodes []*placement.Node) int {
		best := 0
		for i, n := range nodes {
			if n.Free.Memory > nodes[best].Free.Memory {
				best = i
			}
		}
		return best
	}
	v := placement.NewView("a", []placement.Node{
		{ID: "a", Worker: true, Total: raysys.Resources{CPU: 4}, Free: raysys.Resources{CPU: 4, Memory: 1 << 30}},
		{ID: "b", Worker: true, Total: raysys.Resources{CPU: 4}, Free: raysys.Resources{CPU: 1, Memory: 8 << 30}},
	})
	d, err := placement.Place(v, placement.Request{
		Kind: placement.Task, Strategy: "roomiest", Custom: map[raysys.Strategy]placement.Strategy{"roomiest": roomiest},
	})
	fmt.Println(d.Node, err)
	// Output: b <nil>
}
