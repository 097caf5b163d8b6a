package testkit_test

import (
	"context"
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

// TestBusyDeviceIsLeft: a task for a device goes elsewhere, and its value with it, when what waits for the device where that is takes
// longer than the way and what waits there. How long work for devices takes is known by those of its functions that have returned, and
// of others by how long they have run.
func TestBusyDeviceIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		measured bool // a long task has returned on node 1
		ran      time.Duration
		short    int // tasks of 100 ms on node 2
		long     int // tasks of 20 s on node 1
		want     string
	}{
		"another is idle":          {true, time.Second, 0, 1, "n2"},
		"another has a short line": {true, time.Second, 4, 3, "n2"},
		"its function is new":      {false, 10 * time.Second, 4, 3, "n2"},
		"only new work waits":      {false, 10 * time.Second, 0, 1, "n2"},
		"none is busy":             {true, time.Second, 0, 0, "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			lasts := func(name string) tasks.Task[time.Duration, int] {
				return tasks.DefineIn(table, name, func(ctx context.Context, d time.Duration) (int, error) {
					select {
					case <-time.After(d):
					case <-ctx.Done(): // the node closes
					}
					return 0, nil
				}).With(raysys.CPU(0), raysys.GPU(1))
			}
			long, short := lasts("long"), lasts("short")
			fill := tasks.DefineIn(table, "fill", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })
			reads := tasks.DefineIn(table, "reads", func(ctx context.Context, _ []byte) (string, error) { return at(ctx), nil }).With(raysys.GPU(1))
			on := func(node string) raysys.Option { return raysys.Label("node", node) }
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx := k.Context()
				k.Cluster().Ready()
				input := fill.With(on("n1")).Go(ctx, 8<<20) // some 30 ms of way
				if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{input}, 1); err != nil {
					t.Fatal(err)
				}
				warm := []raysys.Ref[int]{short.With(on("n2")).Go(ctx, 100*time.Millisecond)}
				if c.measured {
					warm = append(warm, long.With(on("n1")).Go(ctx, 20*time.Second))
				}
				for _, r := range warm {
					if _, err := r.Get(ctx); err != nil {
						t.Fatal(err)
					}
				}
				for range c.long {
					long.With(on("n1")).Go(ctx, 20*time.Second)
				}
				k.Advance(c.ran)
				for range c.short {
					short.With(on("n2")).Go(ctx, 100*time.Millisecond)
				}
				k.Advance(130 * time.Millisecond)
				if node, err := reads.On(ctx, input).Get(ctx); err != nil || node != c.want {
					t.Errorf("the task ran on %q (%v), want %s", node, err, c.want)
				}
			}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Resources.CPU, cfg.DeviceSource = 4, newSource(i, 1)
					cfg.Cluster.Labels = map[string]string{"node": []string{"", "n1", "n2"}[i]}
				}
			}))
		})
	}
}

// TestHeldDeviceIsLeft: the same where a grain or a placement group has the device: when that ends is not known, and it is taken to last for
// as long as it has lasted. A grain that is idle gives way.
func TestHeldDeviceIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		work  time.Duration // of a call that the grain is at
		keep  bool
		group bool
		want  string
	}{
		"a grain at work":          {time.Hour, false, false, "n2"},
		"an idle grain":            {0, false, false, "n1"},
		"an idle grain that stays": {0, true, false, "n2"},
		"a placement group":        {0, false, true, "n2"},
	} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			opts := []grains.Option{grains.Holds(raysys.GPU(1))}
			if c.keep {
				opts = append(opts, grains.Keep())
			}
			trainers := grains.DefineIn[struct{}](table, "trainer", opts...)
			step := grains.Method(trainers, "step", func(_ *struct{}, ctx context.Context, d time.Duration) (int, error) {
				select {
				case <-time.After(d):
				case <-ctx.Done(): // the node closes
				}
				return 0, nil
			})
			fill := tasks.DefineIn(table, "fill", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })
			reads := tasks.DefineIn(table, "reads", func(ctx context.Context, _ []byte) (string, error) { return at(ctx), nil }).With(raysys.GPU(1))
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, there := k.Context(), raysys.Label("node", "n1")
				k.Cluster().Ready()
				input := fill.With(there).Go(ctx, 8<<20) // some 30 ms of way
				if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{input}, 1); err != nil {
					t.Fatal(err)
				}
				if c.group {
					g, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{GPU: 1, Custom: map[string]float64{"first": 1}}})
					if err == nil {
						err = g.Wait(ctx)
					}
					if err != nil {
						t.Fatal(err)
					}
				} else {
					trainer := trainers.Get("a")
					if _, err := step.With(there).Call(ctx, trainer, 0).Get(ctx); err != nil {
						t.Fatal(err)
					}
					if c.work > 0 {
						step.Call(ctx, trainer, c.work)
					}
				}
				k.Advance(10 * time.Second)
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if node, err := reads.On(ctx, input).Get(ctx); err != nil || node != c.want {
					t.Errorf("the task ran on %q (%v), want %s", node, err, c.want)
				}
			}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Resources.CPU, cfg.DeviceSource = 4, newSource(i, 1)
					cfg.Resources.Custom = map[string]float64{[]string{"", "first", "second"}[i]: 1}
					cfg.Cluster.Labels = map[string]string{"node": []string{"", "n1", "n2"}[i]}
				}
			}))
		})
	}
}
