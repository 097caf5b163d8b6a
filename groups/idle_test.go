package groups_test

import (
	"context"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

// TestIdleGrainsMakeRoom: grains that are idle give up what they hold for a group that waits for it, as many as it takes, and one that
// keeps its activation does not.
func TestIdleGrainsMakeRoom(t *testing.T) {
	p := newProgram(grains.Holds(raysys.GPU(1)))
	kept := grains.DefineIn[trainer](p.table, "kept", grains.Holds(raysys.GPU(1)), grains.Keep())
	calls := grains.Method0(kept, "calls", func(g *trainer, _ context.Context) (int, error) {
		g.calls++
		return g.calls, nil
	})
	_, ctx := start(t, p.table, func(cfg *system.Config) { cfg.Resources.GPU = 3 })
	get := func(key string) string {
		t.Helper()
		got, err := p.step.Call(ctx, p.kind.Get(key)).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if n, err := calls.Call(ctx, kept.Get("c")).Get(ctx); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for range 4 { // which of them is asked first is left to chance
		get("a")
		get("b")
		g, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{GPU: 1}})
		if err == nil {
			err = g.Wait(ctx)
		}
		if err == nil {
			err = g.Remove(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		stayed := 0
		for _, was := range []string{get("a"), get("b")} {
			if !strings.HasSuffix(was, " 1") {
				stayed++
			}
		}
		if stayed != 1 {
			t.Errorf("%d of 2 grains stayed where a group waited for one device", stayed)
		}
	}
	if n, err := calls.Call(ctx, kept.Get("c")).Get(ctx); n != 2 || err != nil {
		t.Errorf("a grain that is to be kept was passivated: call %d, %v", n, err)
	}
}
