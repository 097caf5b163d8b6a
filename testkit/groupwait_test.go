package testkit_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestNoTaskWaitsBesideRoomInGroup: of tasks that may be in any bundle of a group, which four nodes submit in bursts at random times, none
// waits for longer than waitLimit while a bundle has what it asks for, on the node where it waits or on another. At times there are more tasks
// than room, and other tasks take room of single bundles.
func TestNoTaskWaitsBesideRoomInGroup(t *testing.T) {
	one := raysys.Resources{CPU: 1}
	h100, asksH100 := slices.Repeat([]string{"NVIDIA H100 80GB HBM3"}, 4), []raysys.Option{raysys.CPU(0), raysys.GPU(1), raysys.GPUModel("H100")}
	for name, c := range map[string]struct {
		nodes    int
		strategy placement.GroupStrategy
		bundles  []raysys.Resources // together four times what a task asks for on each node
		asks     []raysys.Option
		devices  []string // the models of those of each node
	}{
		"one bundle on each node":   {3, placement.StrictSpread, slices.Repeat([]raysys.Resources{{CPU: 4}}, 3), nil, nil},
		"four bundles on each node": {3, placement.Pack, slices.Repeat([]raysys.Resources{one}, 12), nil, nil},
		"large bundles and small":   {3, placement.Pack, append(slices.Repeat([]raysys.Resources{one}, 4), raysys.Resources{CPU: 4}, raysys.Resources{CPU: 4}), nil, nil},
		"one node":                  {1, placement.Pack, slices.Repeat([]raysys.Resources{one}, 4), nil, nil},
		"a device": {
			3, placement.StrictSpread, slices.Repeat([]raysys.Resources{{CPU: 4, GPU: 4}}, 3),
			[]raysys.Option{raysys.CPU(0), raysys.GPU(1)},
			h100,
		},
		"a model": {3, placement.StrictSpread, slices.Repeat([]raysys.Resources{{CPU: 4, GPU: 4}}, 3), asksH100, h100},
		"a model that the bundles ask for": {
			3, placement.Pack, slices.Repeat([]raysys.Resources{{GPU: 1, GPUModel: "NVIDIA H100"}}, 12), asksH100, h100,
		},
		"a model and memory": {
			3, placement.Pack, slices.Repeat([]raysys.Resources{{GPU: 2}}, 6),
			append(slices.Clone(asksH100), raysys.GPUMemory(80<<30)), h100,
		},
		"a model beside another": {
			3, placement.StrictSpread, slices.Repeat([]raysys.Resources{{GPU: 7}}, 3), asksH100,
			append([]string{"NVIDIA L4", "NVIDIA L4", "NVIDIA L4"}, h100...),
		},
		"memory and a custom resource": {
			3, placement.StrictSpread,
			slices.Repeat([]raysys.Resources{{Memory: 4 << 20, Custom: map[string]float64{"licence": 4}}}, 3),
			[]raysys.Option{raysys.CPU(0), raysys.Memory(1 << 20), raysys.Resource("licence", 1)},
			nil,
		},
	} {
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			table := raysys.NewTable()
			var o observed
			task := o.lastingTask(table).With(c.asks...)
			testkit.Virtual(t, func(k *testkit.Kit) {
				cluster, r, ctx := k.Cluster(), k.Rand(), k.Context()
				cluster.Ready()
				k.Advance(time.Second)
				g, err := groups.Create(ctx, c.strategy, c.bundles)
				if err == nil {
					err = g.Wait(ctx)
				}
				if err != nil {
					t.Fatal(err)
				}
				o.start = time.Now()
				var refs []raysys.Ref[int]
				for range 20 {
					from := r.Perm(c.nodes + 1)[:1+r.IntN(c.nodes+1)]
					now := time.Since(o.start)
					for i := range 1 + r.IntN(4*c.nodes) {
						lasts := 10*time.Millisecond + time.Duration(r.Int64N(int64(600*time.Millisecond)))
						refs = append(refs, task.With(g.AnyBundle()).Go(cluster.Node(from[i%len(from)]).Context(ctx), lasting{now, slower() * lasts}))
					}
					k.Advance(slower() * time.Duration(r.Int64N(int64(400*time.Millisecond))))
				}
				for _, ref := range refs {
					if _, e := ref.Get(ctx); e != nil {
						err = errors.Join(err, e)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				d, w, node := o.waitsBeside(4)
				if d > waitLimit() {
					t.Errorf("a task, submitted at %v and begun at %v on node %s, waited for %v while a bundle of node %s had room for it",
						w.submitted, w.began, w.node, d, node)
				}
				t.Logf("the longest of %d waits beside room: %v", len(refs), d)
			}, seed, testkit.Table(table), testkit.Nodes(c.nodes), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Resources = raysys.Resources{CPU: 4, Memory: 4 << 20, Custom: map[string]float64{"licence": 4}}
					for n, model := range c.devices {
						cfg.Devices = append(cfg.Devices, raysys.Device{UUID: fmt.Sprint("GPU-", i, "-", n), Model: model, Memory: 80 << 30})
					}
				}
			}))
		})
	}
}
