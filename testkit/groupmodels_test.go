package testkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

type whereGrain struct{}

func (*whereGrain) Where(ctx context.Context) (raysys.NodeID, error) {
	return system.NodeOf(ctx).Name(), nil
}

// TestAnyBundleWithSuchDevices: work that may be in any bundle of a group, and asks for a model or for memory of a device, goes to one that has
// that, also where others come before it and where all are taken; where none ever has it, it fails.
func TestAnyBundleWithSuchDevices(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		bundles []raysys.Resources
		asks    []raysys.Option
		never   raysys.Option
	}{
		"a model that a bundle asks for": {
			[]raysys.Resources{{GPU: 1, GPUModel: "A100"}, {GPU: 1, GPUModel: "H100"}}, []raysys.Option{raysys.GPUModel("H100")}, raysys.GPUModel("L4"),
		},
		"a model":                {[]raysys.Resources{{GPU: 1}, {GPU: 1}}, []raysys.Option{raysys.GPUModel("H100")}, raysys.GPUModel("L4")},
		"memory":                 {[]raysys.Resources{{GPU: 1}, {GPU: 1}}, []raysys.Option{raysys.GPUMemory(60 * gib)}, raysys.GPUMemory(90 * gib)},
		"memory of a bundle":     {[]raysys.Resources{{GPU: 1, GPUMemory: 10 * gib}, {GPU: 1, GPUMemory: 40 * gib}}, []raysys.Option{raysys.GPUMemory(20 * gib)}, raysys.GPUMemory(60 * gib)},
		"memory of a shared one": {[]raysys.Resources{{GPU: 0.5}, {GPU: 0.5, GPUMemory: 8 * gib}}, []raysys.Option{raysys.GPU(0.5), raysys.GPUMemory(8 * gib)}, raysys.GPUMemory(9 * gib)},
	} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			lasts := tasks.DefineIn(table, "lasts", func(_ context.Context, x int) (int, error) {
				<-time.After(300 * time.Millisecond)
				return x, nil
			}).With(append([]raysys.Option{raysys.CPU(0), raysys.GPU(1)}, c.asks...)...)
			kind := grains.DefineIn[whereGrain](table, "where", grains.Holds(append([]raysys.Option{raysys.GPU(1)}, c.asks...)...))
			where := grains.Method0(kind, "where", (*whereGrain).Where)
			testkit.Virtual(t, func(k *testkit.Kit) {
				k.Cluster().Ready()
				ctx := k.Context()
				g, err := groups.Create(ctx, placement.StrictSpread, c.bundles)
				if err != nil {
					t.Fatal(err)
				}
				var refs []raysys.Ref[int]
				for i := range 5 { // from before the group has its nodes
					refs = append(refs, lasts.With(g.AnyBundle()).Go(ctx, i))
				}
				for i, r := range refs {
					if got, err := r.Get(ctx); got != i || err != nil {
						t.Errorf("task %d: %v, %v", i, got, err)
					}
				}
				if _, err := lasts.With(g.AnyBundle(), c.never).Go(ctx, 0).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
					t.Errorf("a task for what no bundle ever has: %v", err)
				}
				for _, key := range []string{"a", "b"} {
					if _, err := where.With(g.AnyBundle()).Call(ctx, kind.Get(key)).Get(ctx); err != nil {
						t.Errorf("grain %s: %v", key, err)
					}
				}
			}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				switch i {
				case 1:
					cfg.Resources = raysys.Resources{CPU: 4, GPU: 1, GPUModel: "NVIDIA A100", GPUMemory: 40 * gib}
				case 2:
					cfg.Resources = raysys.Resources{CPU: 4, GPU: 1, GPUModel: "NVIDIA H100", GPUMemory: 80 * gib}
				}
			}))
		})
	}
}
