package generator

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// TestBoxesMove: boxes that leave their nodes, in whatever state, lose nothing, and cost no attempt.
func TestBoxesMove(t *testing.T) {
	const n = 20_000
	var attempts atomic.Int64
	table := raysys.NewTable()
	g := DefineIn(table, "numbers", func(_ context.Context, n int, yield func(int) bool) error {
		attempts.Add(1)
		for i := range n {
			if !yield(i) {
				return fmt.Errorf("yield is false at %d", i)
			}
		}
		return nil
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		ctx, read := k.Context(), 0
		s := g.Go(ctx, n)
		for v, err := range s.All(ctx) {
			if err != nil || v != read {
				t.Fatal(v, read, err)
			}
			if read++; read%701 == 0 {
				for _, key := range []string{s.s.key, s.s.key + "/1"} {
					if err := grains.Unload(ctx, g.d.kind.Get(key)); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if read != n || attempts.Load() != 1 {
			t.Errorf("%d items of %d, in %d attempts", read, n, attempts.Load())
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
