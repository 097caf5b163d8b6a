package grainengine_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
)

// TestActivationLeavesFewReplies: an activation that ends makes no commit for a few replies that may go, and one for many.
func TestActivationLeavesFewReplies(t *testing.T) {
	for _, calls := range []int{3, 40} {
		v := newVaults(t)
		quit := grains.Action0(v.kind, "quit", func(_ *vault, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()
		a, b := v.net.add("a"), v.net.add("b")
		ctx, g := a.context(), v.kind.Get("x")
		v.net.put(idOf(g), b)
		let := v.net.slowly("commit")
		var refs []raysys.Ref[int]
		for range calls {
			refs = append(refs, v.add.Call(ctx, g, 1))
		}
		let()
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		nodetest.Eventually(t, "b hears that the replies may go", func() bool { return grainengine.Forgotten(b.engine, idOf(g)) == v.kept("x") })
		want := v.kept("x")
		if want > 8 {
			want = 0
		}
		ends(t, ctx, quit.Call(ctx, g))
		nodetest.Eventually(t, "the activation ends", func() bool { return b.engine.Activations("vault") == 0 })
		if n := v.kept("x"); n != want {
			t.Errorf("the activation left %d replies of %d calls, want %d", n, calls, want)
		}
	}
}
