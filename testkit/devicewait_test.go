package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
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
