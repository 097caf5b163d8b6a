package placement_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// BenchmarkPlace is one decision, entered in the view, and one report of a node. In the view are four shapes of requests.
func BenchmarkPlace(b *testing.B) {
	inputs := func(k int) placement.Inputs {
		at := map[raysys.NodeID]int64{}
		for i := range 3 {
			at[raysys.NodeID(fmt.Sprintf("node-%d", (k*7+i)%100))] = 10 * mib
		}
		return placement.Inputs{Bytes: 30 * mib, At: at}
	}
	task := placement.Request{Kind: placement.Task, Function: "square", Needs: raysys.Resources{CPU: 1}}
	on := func(c placement.Condition) placement.Request {
		r := task
		r.Conditions = []placement.Condition{c}
		return r
	}
	three := []raysys.NodeID{"node-1", "node-50", "node-99"}
	cases := map[string]placement.Request{
		"task/near":            on(placement.Condition{Nodes: three}),
		"task/apart":           on(placement.Condition{Nodes: three, Not: true}),
		"task/near-none":       on(placement.Condition{Nodes: []raysys.NodeID{"gone"}}),
		"task/in-zone":         on(placement.Condition{Label: "zone", Values: []string{"0", "1"}}),
		"task/prefer-near":     on(placement.Condition{Nodes: three, Soft: true}),
		"task/prefer-zone":     on(placement.Condition{Label: "zone", Values: []string{"0"}, Soft: true}),
		"grain/prefer-gone":    {Function: "counter", Key: "alice", Conditions: []placement.Condition{{Label: "zone", Values: []string{"gone"}, Soft: true}}},
		"grain/prefer-near":    {Function: "counter", Key: "alice", Conditions: []placement.Condition{{Nodes: three, Soft: true}}},
		"grain":                {Function: "counter", Key: "alice"},
		"grain/local":          {Function: "counter", Key: "alice", Strategy: raysys.PreferLocal},
		"grain/hash":           {Function: "counter", Key: "alice", Strategy: raysys.ByHash},
		"grain/spread":         {Function: "counter", Key: "alice", Strategy: raysys.Spread},
		"grain/hash-of-half":   {Function: "counter", Key: "alice", Strategy: raysys.ByHash, Needs: raysys.Resources{CPU: 1}},
		"grain/spread-of-half": {Function: "counter", Key: "alice", Strategy: raysys.Spread, Needs: raysys.Resources{CPU: 1}},
		"grain/hash-near":      {Function: "counter", Key: "alice", Strategy: raysys.ByHash, Conditions: []placement.Condition{{Nodes: three, Soft: true}}},
		"task/spread":          {Kind: placement.Task, Function: "square", Needs: raysys.Resources{CPU: 1}, Strategy: raysys.Spread},
		"task/spread-reports":  {Kind: placement.Task, Function: "square", Needs: raysys.Resources{CPU: 1}, Strategy: raysys.Spread},
		"task":                 task,
		"task/inputs":          task,
		"task/1-in-100":        {Kind: placement.Task, Function: "train", Needs: raysys.Resources{CPU: 1, GPU: 1}},
		"task/1-in-10":         {Kind: placement.Task, Function: "train", Needs: raysys.Resources{Custom: map[string]float64{"licence": 1}}},
		"grain/1-in-100":       {Function: "trainer", Needs: raysys.Resources{GPU: 0.001}},
		"task/none-now":        {Kind: placement.Task, Function: "train", Needs: raysys.Resources{GPU: 2}, Now: true},
		"grain/none":           {Function: "counter", Needs: raysys.Resources{GPU: 3}},
	}
	for _, n := range []int{100, 10_000} {
		for _, sizes := range []string{"", "/uneven"} {
			nodes := equalNodes(n)
			for i := range nodes {
				nodes[i].Labels = map[string]string{"zone": fmt.Sprint(i % 100)}
				if sizes != "" {
					nodes[i].Total.CPU = []float64{4, 16, 64}[i%3]
				}
				if i%100 == 7 {
					nodes[i].Total.GPU, nodes[i].Free.GPU = 2, 1
				}
				if i%10 == 3 {
					nodes[i].Total.Custom = map[string]float64{"licence": 1}
				}
			}
			for name, r := range cases {
				b.Run(fmt.Sprintf("%s%s/nodes=%d", name, sizes, n), func(b *testing.B) {
					v := placement.NewView("node-1", nodes)
					for _, other := range cases {
						_, _ = placement.Place(v, other)
					}
					if name == "task/spread-reports" {
						v.Refresh = reports(nodes)
					}
					var in [16]placement.Inputs
					for k := range in {
						in[k] = inputs(k)
					}
					b.ReportAllocs()
					for k := 0; b.Loop(); k++ {
						r.Seed = seed(k)
						if name == "task/inputs" {
							r.Inputs = in[k%len(in)]
						}
						d, err := placement.Place(v, r)
						if err == nil {
							v.Placed(r, d)
							v.Gone(d.Node, r.Needs)
						}
						v.Update(nodes[k%n].ID, func(n *placement.Node) { n.Queued, n.Free.CPU = k%3, float64(k%2) })
					}
				})
			}
		}
	}
}

// reports returns a Refresh that costs what a node's does: it finds, behind locks, the connection, the last report, the tasks that are on
// their way, and those that no report counts.
func reports(nodes []placement.Node) func(*placement.Node) {
	type key struct {
		node        raysys.NodeID
		incarnation uint64
	}
	var known [4]map[key]*placement.Node
	for i := range known {
		known[i] = map[key]*placement.Node{}
		for k := range nodes {
			n := nodes[k]
			known[i][key{n.ID, n.Incarnation}] = &n
		}
	}
	var mu sync.Mutex
	return func(n *placement.Node) {
		for i := range known {
			mu.Lock()
			l := known[i][key{n.ID, n.Incarnation}]
			mu.Unlock()
			n.Queued, n.Running, n.Free.CPU = l.Queued, l.Running, l.Free.CPU
		}
	}
}

// BenchmarkAssign is one group of four bundles, on nodes with two devices each: where any node has room for all bundles, where any has
// room for one, where 1 in 100 has room and where none has now.
func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		nodes := equalNodes(n)
		for i := range nodes {
			nodes[i].Total.GPU, nodes[i].Free.GPU = 2, 2
			nodes[i].Total.Custom = map[string]float64{"licence": 1}
			nodes[i].Free.Custom = nodes[i].Total.Custom
			for k := range 2 {
				d := raysys.Device{UUID: fmt.Sprint(i, k), Model: "H100", Memory: 80 << 30}
				nodes[i].Devices = append(nodes[i].Devices, placement.Device{Device: d, FreeShare: 1, FreeMemory: 80 << 30})
			}
		}
		for _, c := range []struct {
			name  string
			needs raysys.Resources
			free  func(i int) float64
		}{
			{"any", raysys.Resources{CPU: 1, GPU: 0.25}, func(int) float64 { return 4 }},
			{"one-each", raysys.Resources{CPU: 1, GPU: 0.25}, func(i int) float64 { return 1 + float64(i%7)/8 }},
			{"1-in-100", raysys.Resources{CPU: 1}, func(i int) float64 { return float64(4 * (i % 100 / 99)) }},
			{"none-now", raysys.Resources{CPU: 1}, func(int) float64 { return 0 }},
		} {
			for _, s := range placement.GroupStrategies {
				b.Run(fmt.Sprintf("%s/%s/nodes=%d", s, c.name, n), func(b *testing.B) {
					v := placement.NewView("", nodes)
					for i := range nodes {
						v.Update(nodes[i].ID, func(n *placement.Node) { n.Free.CPU = c.free(i) })
					}
					g := placement.GroupRequest{Strategy: s, Bundles: []raysys.Resources{c.needs, c.needs, c.needs, c.needs}}
					b.ReportAllocs()
					for b.Loop() {
						_, _ = placement.Assign(v, g)
					}
				})
			}
		}
	}
}
