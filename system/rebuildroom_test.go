package system_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// TestRebuildHasRoom: tasks that fill a node, and wait there for lost values, do not keep out the tasks that make those again.
func TestRebuildHasRoom(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.place("w1", system.Worker)
	d, ctx := f.place("d", system.Driver)
	meet(t, d, w1)
	const n = 12
	var made []raysys.Ref[parcel]
	for i := range n {
		made = append(made, pack.Go(ctx, order{i + 1, large, 0}))
	}
	if _, _, err := raysys.Wait(ctx, made, n); err != nil {
		t.Fatal(err)
	}
	w2, _ := f.place("w2", system.Worker)
	meet(t, d, w1, w2)
	if err := w1.Kill(context.Background(), errShort); err != nil {
		t.Error(err)
	}
	settles(t, "w1 is known to be dead", func() bool { return system.Members(d) == 2 && system.Members(w2) == 2 })
	var got []raysys.Ref[int]
	for _, r := range made {
		got = append(got, scale.With(on("w2")).On(ctx, r))
	}
	for i, r := range got {
		if v, err := r.Get(ctx); v != i+1 || err != nil {
			t.Fatalf("value %d: %d, %v", i+1, v, err)
		}
	}
}
