package placement_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

func cpus(list ...float64) (all []raysys.Resources) {
	for _, n := range list {
		all = append(all, raysys.Resources{CPU: n})
	}
	return all
}

func workersWith(free ...float64) (nodes []placement.Node) {
	for i, n := range free {
		nodes = append(nodes, placement.Node{
			ID: raysys.NodeID(fmt.Sprintf("n%d", i)), Incarnation: uint64(i + 1), Total: raysys.Resources{CPU: 8}, Free: raysys.Resources{CPU: n}, Worker: true,
		})
	}
	return nodes
}

func TestAssign(t *testing.T) {
	for _, c := range []struct {
		name     string
		strategy placement.GroupStrategy
		free     []float64
		bundles  []raysys.Resources
		at       []raysys.NodeID
		avoid    []raysys.NodeID
		want     string
		err      error
		says     string
	}{
		{name: "one node has room for all", strategy: placement.Pack, free: []float64{2, 8, 4}, bundles: cpus(1, 1, 1, 1), want: "n2 n2 n2 n2"},
		{name: "the smallest nodes that will do", strategy: placement.Pack, free: []float64{2, 3, 4}, bundles: cpus(2, 2, 3), want: "n0 n2 n1"},
		{name: "beside those that are placed", strategy: placement.Pack, free: []float64{8, 2}, bundles: cpus(1, 1, 1), at: []raysys.NodeID{"n0", "", ""}, want: "n0 n0 n0"},
		{name: "each elsewhere", strategy: placement.Spread, free: []float64{2, 8, 4}, bundles: cpus(1, 1, 1), want: "n1 n2 n0"},
		{name: "two on one where there must", strategy: placement.Spread, free: []float64{2, 8}, bundles: cpus(1, 1, 1), want: "n1 n0 n1"},
		{name: "all on one", strategy: placement.StrictPack, free: []float64{2, 8, 4}, bundles: cpus(2, 2), want: "n1 n1"},
		{name: "not all on one", strategy: placement.StrictPack, free: []float64{2, 3}, bundles: cpus(2, 2), err: placement.ErrNoNode},
		{name: "never all on one", strategy: placement.StrictPack, free: []float64{8, 8}, bundles: cpus(6, 6), err: raysys.ErrNoCapacity, says: "CPU 12"},
		{name: "with the one that is placed", strategy: placement.StrictPack, free: []float64{1, 8}, bundles: cpus(2, 2), at: []raysys.NodeID{"n0", ""}, err: placement.ErrNoNode},
		{name: "each of its own, by the one way there is", strategy: placement.StrictSpread, free: []float64{2, 3}, bundles: cpus(2, 3), want: "n0 n1"},
		{name: "not each of its own", strategy: placement.StrictSpread, free: []float64{8, 0}, bundles: cpus(1, 1), err: placement.ErrNoNode},
		{name: "never each of its own", strategy: placement.StrictSpread, free: []float64{8, 8}, bundles: cpus(1, 1, 1), err: raysys.ErrNoCapacity, says: "of 2 workers 2"},
		{name: "one that died is replaced apart", strategy: placement.StrictSpread, free: []float64{8, 8, 8}, bundles: cpus(1, 1), at: []raysys.NodeID{"n1", ""}, avoid: []raysys.NodeID{"n0"}, want: "n1 n2"},
		{name: "never more than one to a node", strategy: placement.Pack, free: []float64{8, 8}, bundles: cpus(5, 5, 5), err: raysys.ErrNoCapacity, says: "3 bundles ask for as much as bundle 0 does, CPU 5, or more, and all nodes have room for 2"},
		{name: "never so many of the larger ones", strategy: placement.Spread, free: []float64{8, 8}, bundles: cpus(1, 5, 5, 5), err: raysys.ErrNoCapacity, says: "as bundle 1 does"},
		{name: "the only way for different ones", strategy: placement.Pack, free: []float64{8, 8}, bundles: cpus(5, 4, 4), want: "n0 n1 n1"},
		{name: "more than any node has", strategy: placement.Pack, free: []float64{8, 8}, bundles: cpus(1, 9), err: raysys.ErrNoCapacity, says: "bundle 1 asks for CPU 9, and the most that one node has is CPU 8"},
		{name: "more than all nodes have", strategy: placement.Pack, free: []float64{8, 8}, bundles: cpus(6, 6, 6), err: raysys.ErrNoCapacity, says: "CPU 18"},
		{name: "no room now", strategy: placement.Spread, free: []float64{1, 1}, bundles: cpus(2), err: placement.ErrNoNode},
		{name: "no node", strategy: placement.Pack, bundles: cpus(1), err: placement.ErrNoNode, says: "raysys node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := placement.NewView("", workersWith(c.free...))
			at, err := placement.Assign(v, placement.GroupRequest{Strategy: c.strategy, Bundles: c.bundles, At: c.at, Avoid: c.avoid})
			var got []string
			for _, id := range at {
				got = append(got, string(id))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("error %v, want %v, and another assignment:\n%s", err, c.err, diff)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error does not say %q: %v", c.says, err)
			}
		})
	}
}

// TestAssignOfKinds: bundles that ask for different things get the nodes that have them, where others would do with any node, and
// nodes of other programs and suspect ones get none.
func TestAssignOfKinds(t *testing.T) {
	nodes := workersWith(4, 4, 4, 4)
	for i := range nodes {
		nodes[i].Namespace = "program"
	}
	nodes[0].Total.GPU, nodes[0].Free.GPU = 1, 1
	nodes[0].Total.Memory, nodes[0].Free.Memory = 10, 10
	nodes[2].Namespace = "other"
	nodes[3].Suspect = true
	large, device, memory := raysys.Resources{CPU: 4}, raysys.Resources{CPU: 1, GPU: 1}, raysys.Resources{CPU: 1, Memory: 10}
	for _, c := range []struct {
		strategy placement.GroupStrategy
		bundles  []raysys.Resources
		want     []raysys.NodeID // nil: no room
	}{
		{placement.Spread, []raysys.Resources{large, device}, []raysys.NodeID{"n1", "n0"}},
		{placement.StrictSpread, []raysys.Resources{large, memory}, []raysys.NodeID{"n1", "n0"}},
		{placement.Spread, []raysys.Resources{large, large}, []raysys.NodeID{"n0", "n1"}},
		{placement.Spread, []raysys.Resources{large, large, large}, nil},
	} {
		v := placement.NewView("", slices.Clone(nodes))
		at, err := placement.Assign(v, placement.GroupRequest{Strategy: c.strategy, Namespace: "program", Bundles: c.bundles})
		if !slices.Equal(at, c.want) || (c.want == nil) != errors.Is(err, placement.ErrNoNode) {
			t.Errorf("%s of %v: %v, %v, want %v", c.strategy, c.bundles, at, err, c.want)
		}
	}
}

// withDevices is a worker with 8 CPUs and idle devices, of a model each.
func withDevices(id string, models ...string) placement.Node {
	all := raysys.Resources{CPU: 8, GPU: float64(len(models)), Memory: 100}
	n := placement.Node{ID: raysys.NodeID(id), Incarnation: 1, Total: all, Free: all, Worker: true}
	for i, m := range models {
		d := raysys.Device{UUID: fmt.Sprintf("%s-%d", id, i), Model: m, Memory: 80}
		n.Devices = append(n.Devices, placement.Device{Device: d, FreeShare: 1, FreeMemory: 80})
	}
	return n
}

// TestAssignNever: what no state of the nodes has room for fails at once, and what some state has room for does not, however busy
// the nodes are.
func TestAssignNever(t *testing.T) {
	a100, h100 := raysys.Resources{GPU: 1, GPUModel: "A100"}, raysys.Resources{GPU: 1, GPUModel: "H100"}
	part, much := raysys.Resources{GPU: 0.6}, raysys.Resources{GPU: 0.2, GPUMemory: 50}
	apart := []placement.Node{withDevices("n0", "A100", "A100"), withDevices("n1", "H100", "H100")}
	mixed := withDevices("n2", "A100", "H100")
	huge := workersWith(8, 8)
	for i := range huge {
		huge[i].Total.Memory, huge[i].Free.Memory = math.MaxInt64, math.MaxInt64
	}
	for _, c := range []struct {
		name     string
		strategy placement.GroupStrategy
		nodes    []placement.Node
		bundles  []raysys.Resources
		says     string // "" where there may be room once
	}{
		{"models of different nodes", placement.StrictPack, apart, []raysys.Resources{a100, h100}, "none of 2 workers has the devices"},
		{"models of one node", placement.StrictPack, append(apart, mixed), []raysys.Resources{a100, h100}, ""},
		{"more of a model than one node has", placement.StrictPack, append(apart, mixed), []raysys.Resources{a100, a100, h100}, "GPU 3"},
		{"one of a model beside another", placement.StrictPack, append(apart, mixed), []raysys.Resources{a100, h100, {GPU: 0.1, GPUModel: "V100"}}, "bundle 2"},
		{"a model that there is not", placement.Pack, apart, []raysys.Resources{{GPU: 1, GPUModel: "V100"}}, `the most that one node has is GPUModel "A100" or "H100":`},
		{"more memory than a device has", placement.Pack, apart, []raysys.Resources{{GPU: 1, GPUMemory: 81}}, "the most that one node has is GPUMemory 80 B:"},
		{"models of different nodes, on several", placement.Pack, apart, []raysys.Resources{a100, h100}, ""},
		{"more of a model than there is", placement.Pack, apart, []raysys.Resources{a100, a100, a100}, "GPUModel \"A100\""},
		{"and beside others", placement.Spread, apart, []raysys.Resources{a100, a100, h100, {GPU: 1}}, ""},
		{"one that any device does for beside one that few do for", placement.StrictPack, []placement.Node{mixed}, []raysys.Resources{{GPU: 1}, a100}, ""},
		{"several", placement.StrictPack, []placement.Node{mixed}, []raysys.Resources{part, h100}, ""},
		{"large shares", placement.Pack, apart, []raysys.Resources{part, part, part, part, part}, "bundle 0"},
		{"as many as devices", placement.Pack, apart, []raysys.Resources{part, part, part, part}, ""},
		{"more memory of devices than there is", placement.Spread, apart, []raysys.Resources{much, much, much, much, much}, "GPUMemory"},
		{"a sum that is beyond the largest number", placement.Pack, huge, cpus(1), ""},
		{"bundles whose sum is", placement.Pack, apart, []raysys.Resources{{Memory: math.MaxInt64}, {Memory: math.MaxInt64}}, "bundle 0"},
		{"and fits", placement.Pack, huge, []raysys.Resources{{Memory: math.MaxInt64}, {Memory: math.MaxInt64}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, busy := range []bool{false, true} {
				nodes := slices.Clone(c.nodes)
				for i := range nodes {
					nodes[i].Devices = slices.Clone(nodes[i].Devices)
					if busy {
						nodes[i].Free = raysys.Resources{}
						for k := range nodes[i].Devices {
							nodes[i].Devices[k].FreeShare = 0
						}
					}
				}
				_, err := placement.Assign(placement.NewView("", nodes), placement.GroupRequest{Strategy: c.strategy, Bundles: c.bundles})
				switch {
				case c.says == "" && busy && !errors.Is(err, placement.ErrNoNode), c.says == "" && !busy && err != nil:
					t.Errorf("busy %t: %v", busy, err)
				case c.says != "" && (!errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), c.says)):
					t.Errorf("busy %t: %v, want one that matches ErrNoCapacity and says %q", busy, err, c.says)
				}
			}
		})
	}
}

// TestQueues: work that no node has room for may wait where it would fit, but for nodes that are avoided for other reasons.
func TestQueues(t *testing.T) {
	nodes := []placement.Node{withDevices("n0", "A100"), withDevices("n1", "H100"), withDevices("n2", "A100"), withDevices("n3", "A100"), withDevices("n4", "A100")}
	for i := range nodes {
		nodes[i].Free, nodes[i].Devices[0].FreeShare = raysys.Resources{}, 0
	}
	nodes[2].Draining, nodes[3].Suspect = true, true
	v := placement.NewView("n0", nodes)
	a100 := placement.Request{Kind: placement.Grain, Needs: raysys.Resources{GPU: 1, GPUModel: "A100"}}
	if got := v.Queues(a100); !slices.Equal(got, []raysys.NodeID{"n0", "n4"}) {
		t.Errorf("a grain may wait on %q", got)
	}
	a100.Kind, a100.Now = placement.Task, true
	if got := v.Queues(a100); !slices.Equal(got, []raysys.NodeID{"n0", "n4"}) {
		t.Errorf("a task may wait on %q", got)
	}
	a100.Needs.GPU = 2
	if got := v.Queues(a100); got != nil {
		t.Errorf("what no node ever has may wait on %q", got)
	}
}

// TestAssignLaws: whatever the nodes and the bundles, what an assignment gives a node is free there, draining and suspect nodes
// get none, the strict strategies hold, bundles that have a node stay, and the view is as before.
func TestAssignLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := anyNodes(t)
		v := placement.NewView("", nodes)
		g := placement.GroupRequest{Strategy: rapid.SampledFrom(placement.GroupStrategies).Draw(t, "strategy")}
		for range rapid.IntRange(1, 8).Draw(t, "bundles") {
			g.Bundles = append(g.Bundles, anyResources(t, "bundle"))
		}
		before := map[raysys.NodeID]raysys.Resources{}
		for i := range v.Len() {
			free := v.At(i).Free
			free.Custom = maps.Clone(free.Custom)
			before[v.At(i).ID] = free
		}
		at, err := placement.Assign(v, g)
		for i := range v.Len() {
			if diff := cmp.Diff(before[v.At(i).ID], v.At(i).Free); diff != "" {
				t.Fatalf("an assignment changed the view:\n%s", diff)
			}
		}
		if err != nil {
			if !errors.Is(err, raysys.ErrNoCapacity) && !errors.Is(err, placement.ErrNoNode) {
				t.Fatal(err)
			}
			return
		}
		used := map[raysys.NodeID]raysys.Resources{}
		count := map[raysys.NodeID]int{}
		for i, id := range at {
			n := v.Find(id)
			if n == nil || !n.Worker || n.Draining || n.Joining || n.Suspect {
				t.Fatalf("bundle %d goes to %q, which takes none", i, id)
			}
			u, b := used[id], g.Bundles[i]
			u.CPU, u.GPU, u.Memory = u.CPU+b.CPU, u.GPU+b.GPU, u.Memory+b.Memory
			if b.Custom != nil {
				u.Custom = map[string]float64{"licence": u.Custom["licence"] + b.Custom["licence"]}
			}
			used[id] = u
			if f := n.Free; u.CPU > f.CPU || u.GPU > f.GPU || u.Memory > f.Memory || u.Custom["licence"] > f.Custom["licence"] {
				t.Fatalf("node %s has %v free and is given %v", id, f, u)
			}
			if count[id]++; g.Strategy == placement.StrictSpread && count[id] > 1 {
				t.Fatalf("two bundles on node %s with %s", id, g.Strategy)
			}
		}
		if g.Strategy == placement.StrictPack && len(count) > 1 {
			t.Fatalf("%d nodes with %s", len(count), g.Strategy)
		}
		kept := rapid.IntRange(0, len(at)-1).Draw(t, "kept")
		g.At = make([]raysys.NodeID, len(at))
		g.At[kept] = at[kept]
		again, err := placement.Assign(v, g)
		if err == nil && again[kept] != at[kept] {
			t.Fatalf("bundle %d was on %s and is moved to %s", kept, at[kept], again[kept])
		}
		g.At = slices.Clone(at)
		if all, err := placement.Assign(v, g); err != nil || !slices.Equal(all, at) {
			t.Fatalf("a group that is placed is placed anew: %v, %v", all, err)
		}
	})
}

// TestNeverIsCertain: of a group that is said never to fit no way to place it is found by trying all.
func TestNeverIsCertain(t *testing.T) {
	never, ever := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, most int) raysys.Resources {
			return raysys.Resources{
				CPU: float64(rapid.IntRange(0, most).Draw(t, what)), Memory: int64(rapid.IntRange(0, most).Draw(t, what)),
				Custom: map[string]float64{"licence": float64(rapid.IntRange(0, most).Draw(t, what)) / 2},
			}
		}
		var nodes []placement.Node
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			total := draw("node", 8)
			nodes = append(nodes, placement.Node{ID: raysys.NodeID(fmt.Sprintf("n%d", i)), Incarnation: 1, Total: total, Free: total, Worker: true})
		}
		g := placement.GroupRequest{Strategy: placement.Pack}
		for range rapid.IntRange(1, 5).Draw(t, "bundles") {
			g.Bundles = append(g.Bundles, draw("bundle", 6))
		}
		_, err := placement.Assign(placement.NewView("", nodes), g)
		if !errors.Is(err, raysys.ErrNoCapacity) {
			ever++
			return
		}
		never++
		left := make([]raysys.Resources, len(nodes))
		for i := range nodes {
			left[i] = nodes[i].Total
			left[i].Custom = maps.Clone(left[i].Custom)
		}
		var fits func(i int) bool
		fits = func(i int) bool {
			if i == len(g.Bundles) {
				return true
			}
			b := &g.Bundles[i]
			for k := range left {
				n := &left[k]
				if b.CPU > n.CPU || b.Memory > n.Memory || b.Custom["licence"] > n.Custom["licence"] {
					continue
				}
				n.CPU, n.Memory, n.Custom["licence"] = n.CPU-b.CPU, n.Memory-b.Memory, n.Custom["licence"]-b.Custom["licence"]
				if fits(i + 1) {
					return true
				}
				n.CPU, n.Memory, n.Custom["licence"] = n.CPU+b.CPU, n.Memory+b.Memory, n.Custom["licence"]+b.Custom["licence"]
			}
			return false
		}
		if fits(0) {
			t.Fatalf("%v fit on %v, and are said never to: %v", g.Bundles, nodes, err)
		}
	})
	if never == 0 || ever == 0 {
		t.Errorf("%d groups never fit, %d may: the test shows nothing", never, ever)
	}
}
