package testkit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// catalog is a durable grain with a Map.
type catalog struct{ goods grains.Map[string, string] }

// TestMapMoves: a grain with a Map of more than a page goes to each node with all entries, and loses none with its node.
func TestMapMoves(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[catalog](table, "catalog", grains.Durable())
	add := grains.Method(kind, "add", func(c *catalog, _ context.Context, n int) (int, error) {
		for i := range 100 {
			c.goods.Set(fmt.Sprint(100*n+i), strings.Repeat("g", 900))
		}
		return c.goods.Len(), nil
	}).With(raysys.NoDeadline())
	look := grains.Method0(kind, "look", func(c *catalog, ctx context.Context) (whereabouts, error) {
		at := whereabouts{Node: system.NodeOf(ctx).Name(), Sum: c.goods.Len()}
		for key, v := range c.goods.All() {
			if len(v) != 900 {
				return at, fmt.Errorf("entry %s has %d bytes", key, len(v))
			}
		}
		return at, nil
	}).ReadOnly()
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx, c := k.T(), k.Context(), k.Cluster()
		g := kind.Get("x\x00y")
		for n := range 20 {
			if got, err := add.Call(ctx, g, n).Get(ctx); err != nil || got != 100*(n+1) {
				t.Fatal(n, got, err)
			}
		}
		on := map[raysys.NodeID]bool{}
		for i := 1; i <= 3; i++ {
			if err := grains.Unload(ctx, g); err != nil {
				t.Fatal(err)
			}
			at, err := look.With(raysys.OnNode(c.Name(i))).Call(ctx, g).Get(ctx)
			if err != nil || at.Sum != 2000 {
				t.Errorf("on node %d: %d entries, %v", i, at.Sum, err)
			}
			on[at.Node] = true
		}
		if len(on) != 3 {
			t.Errorf("it was on %v", on)
		}
		c.Kill(3)
		if got, err := add.Call(ctx, g, 20).Get(ctx); err != nil || got != 2100 {
			t.Errorf("after its node died: %d entries, %v", got, err)
		}
		n := 0
		for s, err := range grains.Stored(ctx, kind, "x") { // in several pages
			if n++; err != nil || s.Key != "x\x00y" || s.State.goods.Len() != 2100 || s.Turn != 21 {
				t.Errorf("stored: %q, turn %d, %v", s.Key, s.Turn, err)
			}
		}
		if n != 1 {
			t.Errorf("%d grains are stored", n)
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
