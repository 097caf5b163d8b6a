package system_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	// aside calls a grain's method that must not be called twice.
	aside = tasks.DefineIn(table, "aside", func(ctx context.Context, key string) (int, error) {
		n, err := holderStore.Call(ctx, holders.Get(key), nil).Get(ctx)
		nights.Store(key, key)
		return n, err
	})
	// withAside has a task of its own called aside, and draws a number once its gate is open.
	withAside = tasks.DefineIn(table, "withAside", func(ctx context.Context, gate string) (int, error) {
		<-gateOf(gate + " begins")
		if _, err := aside.With(on("w1")).Go(ctx, gate+" aside").Get(ctx); err != nil {
			return 0, err
		}
		select {
		case <-gateOf(gate):
			return int(drawn.Add(1)), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	// givesAway has its child known to a grain.
	givesAway = tasks.DefineIn(table, "givesAway", func(ctx context.Context, gate string) (int, error) {
		h := withAside.With(on("w1")).Go(ctx, gate).Handle()
		if _, err := holderHold.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[int]{h}).Get(ctx); err != nil {
			return 0, err
		}
		return h.Ref().Get(ctx)
	})
)

// TestAdoptedWithEffects: a task that has not settled has its next submitter, although a task of its own has called a grain's
// method that must not be called twice.
func TestAdoptedWithEffects(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	givesAway.With(on("w1")).Go(sctx, gate)
	settles(t, "the task is recorded", func() bool { return system.Recorded(f.node("w1")) == 1 })
	openGate(gate + " begins")
	settles(t, "the child has called the grain", func() bool { return runs(gate+" aside") == 1 })
	for range 20 { // the child's end, and the tick at which a record would go
		hold(ctx, t, "w3")
	}
	if n := system.Recorded(f.node("w1")); n != 1 {
		t.Errorf("%d tasks are recorded, want the one that still runs", n)
	}
	f.kill("w1")
	f.place("w1", system.Worker)
	openGate(gate)
	if n := summed(ctx, t, "w2"); n == 0 {
		t.Error("w2 has nothing")
	}
}

// TestAdoptedBeyondMemory: a task that has not settled has its next submitter, although the submitter has dropped its recipe to make room for
// newer ones.
func TestAdoptedBeyondMemory(t *testing.T) {
	f, sctx, ctx := newWill(t, func(c *system.Config) { c.LineageMemory = 20 << 10 })
	gate := newGate()
	r := draw.With(on("w1")).Go(sctx, gate)
	for range 2 { // the first may get it before it is recorded, after 1 s
		hold(sctx, t, "w2", r.Handle())
		settles(t, "the task is recorded", func() bool { return f.recordedAt("s") == 1 })
	}
	var newer []raysys.Ref[parcel]
	for range 40 { // 1 KiB each and more
		arg, _ := loaded("open", 1<<10)
		newer = append(newer, measured.With(on("w1")).Go(sctx, arg))
	}
	if _, err := raysys.GetAll(sctx, newer).Values(); err != nil {
		t.Fatal(err)
	}
	if e, err := raysys.Why(sctx, r); err != nil || !strings.Contains(e.String(), "LineageMemory") {
		t.Errorf("the recipe is kept: %v, %v; want it dropped, by the memory", e, err)
	}
	for range 20 { // the tick at which a record would go
		hold(ctx, t, "w3")
	}
	if n := f.recordedAt("s"); n != 1 {
		t.Errorf("%d tasks are recorded, want the one that still runs", n)
	}
	f.kill("s")
	openGate(gate)
	if n := summed(ctx, t, "w2"); n == 0 {
		t.Error("w2 has nothing")
	}
	runtime.KeepAlive(newer)
}
