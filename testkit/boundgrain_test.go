package testkit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestBoundGrainWaits: a grain that its call binds to a node waits there for a device, though another node has one free: the call of
// another node says that it does.
func TestBoundGrainWaits(t *testing.T) {
	for name, bound := range map[string]raysys.Option{"label": raysys.Label("node", "n1"), "condition": raysys.OnNode("n1")} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			kind := grains.DefineIn[struct{}](table, "bound", grains.Holds(raysys.GPU(1)))
			var gate chan struct{}
			work := grains.Method(kind, "work", func(_ *struct{}, ctx context.Context, waits bool) (string, error) {
				if waits {
					select {
					case <-gate:
					case <-ctx.Done():
						return "", ctx.Err()
					}
				}
				return at(ctx), nil
			}).With(bound)
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, ctx, c := k.T(), k.Context(), k.Cluster()
				gate = make(chan struct{})
				c.Ready()
				holder := work.Call(ctx, kind.Get("holder"), true)
				k.Advance(time.Second)
				waiter := work.Call(ctx, kind.Get("waiter"), false)
				k.Advance(time.Second)
				for range 100 {
					x, err := raysys.Explain(ctx, waiter)
					inLine := slices.ContainsFunc(x.Waits, func(w raysys.Waiting) bool { return w.Node == "n1" && w.Stage == core.StageLine })
					if err != nil || !inLine || len(x.Placed) > 1 {
						t.Fatalf("the grain does not stay in the line of n1, to which its call binds it: %v, %v", x, err)
					}
					k.Advance(7 * time.Millisecond)
				}
				close(gate)
				for _, r := range []raysys.Ref[string]{holder, waiter} {
					if node, err := r.Get(ctx); err != nil || node != "n1" {
						t.Errorf("on %q, %v; want n1", node, err)
					}
				}
			}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Devices = []raysys.Device{{UUID: fmt.Sprint("GPU-", i), Model: "H100", Memory: 80 << 30}}
					cfg.Cluster.Labels = map[string]string{"node": fmt.Sprint("n", i)}
				}
			}))
		})
	}
}
