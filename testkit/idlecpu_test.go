package testkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// cpuGrain holds CPUs while it is active.
type cpuGrain struct{}

func (*cpuGrain) Use(ctx context.Context, d time.Duration) (raysys.NodeID, error) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return raysys.NodeID(at(ctx)), ctx.Err()
}

// TestIdleGrainYieldsCPU: tasks of one CPU get the CPUs that idle grains hold, on the node that submits them and on others, also of a
// grain that was busy when they came, and not those of kinds that keep them.
func TestIdleGrainYieldsCPU(t *testing.T) {
	for name, c := range map[string]struct {
		from  int
		holds raysys.Option
		opts  []grains.Option
		busy  time.Duration // for how long the grains have a call yet
		keeps bool
	}{
		"of a driver":         {from: 0, holds: raysys.CPU(1)},
		"of the node itself":  {from: 1, holds: raysys.CPU(1)},
		"all of them":         {from: 0, holds: raysys.CPU(2)},
		"shares":              {from: 1, holds: raysys.CPU(0.5)},
		"while they are busy": {from: 1, holds: raysys.CPU(1), busy: 5 * time.Second},
		"kept":                {from: 1, holds: raysys.CPU(1), opts: []grains.Option{grains.Keep()}, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			kind := grains.DefineIn[cpuGrain](table, "cpu", append(c.opts, grains.Holds(c.holds))...)
			use := grains.Method(kind, "use", (*cpuGrain).Use)
			plain := tasks.DefineIn(table, "plain", func(ctx context.Context, _ int) (string, error) { return at(ctx), nil })
			testkit.Virtual(t, func(k *testkit.Kit) {
				k.Cluster().Ready()
				ctx := k.Cluster().Node(c.from).Context(k.Context())
				held := 0.0
				for _, key := range []string{"a", "b", "c", "d"} {
					if held < 2 {
						if _, err := use.Call(ctx, kind.Get(key), 0).Get(ctx); err != nil {
							t.Fatal(err)
						}
						held += map[bool]float64{true: 0.5, false: 1}[name == "shares"]
						if name == "all of them" {
							held = 2
						}
						if c.busy > 0 {
							use.Call(ctx, kind.Get(key), c.busy)
						}
					}
				}
				k.Advance(time.Second)
				began := time.Now()
				in, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				var refs []raysys.Ref[string]
				for i := range 5 {
					refs = append(refs, plain.Go(in, i))
				}
				for _, r := range refs {
					if _, err := r.Get(in); c.keeps != errors.Is(err, context.DeadlineExceeded) || !c.keeps && err != nil {
						t.Errorf("a task beside idle grains: %v", err)
					}
				}
				if d := time.Since(began); !c.keeps && d > c.busy+yieldLimit() {
					t.Errorf("the tasks have waited for %v", d)
				}
				k.Advance(time.Second)
				if _, err := use.Call(ctx, kind.Get("a"), 0).Get(ctx); err != nil { // it comes back
					t.Error(err)
				}
			}, testkit.Table(table), testkit.Nodes(1), testkit.CPU(2))
		})
	}
}

// TestIdleGrainYieldsCPUAlone is the same on a node that is no member of a cluster.
func TestIdleGrainYieldsCPUAlone(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[cpuGrain](table, "cpu", grains.Holds(raysys.CPU(1)))
	use := grains.Method(kind, "use", (*cpuGrain).Use)
	plain := tasks.DefineIn(table, "plain", func(ctx context.Context, _ int) (string, error) { return at(ctx), nil })
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		for _, key := range []string{"a", "b"} {
			if _, err := use.Call(ctx, kind.Get(key), 0).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for i := range 2 {
			if _, err := plain.Go(ctx, i).Get(ctx); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(began); d > yieldLimit() {
			t.Errorf("the tasks have waited for %v", d)
		}
	}, testkit.Table(table), testkit.CPU(2))
}
