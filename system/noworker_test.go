package system_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var shaped = tasks.DefineIn(table, "shaped", func(_ context.Context, x int) (int, error) { return x, nil })

// TestNoWorker: work of every shape waits while no worker is there, at first and after all have gone, as work of one CPU does.
// With a worker there that can never take it, it fails.
func TestNoWorker(t *testing.T) {
	shapes := func(worker raysys.NodeID) map[string][]raysys.Option {
		return map[string][]raysys.Option{
			"one CPU": nil, "a part of a CPU": {raysys.CPU(0.1)}, "no CPU": {raysys.CPU(0)}, "two CPUs": {raysys.CPU(2)}, "memory": {raysys.Memory(1 << 20)},
			"a label": {raysys.Label("node", string(worker))}, "a node": {raysys.OnNode(worker)}, "spread": {raysys.Placement(raysys.Spread)},
		}
	}
	f := newFleet(t)
	d, ctx := f.join("d", system.Driver)
	for i, when := range []string{"at first", "after all have gone"} {
		worker := raysys.NodeID(fmt.Sprint("w", i))
		refs := map[string]raysys.Ref[int]{}
		for name, o := range shapes(worker) {
			refs[name] = shaped.With(o...).Go(ctx, 7)
		}
		w, _ := f.place(worker, system.Worker)
		meet(t, d, w)
		for name, r := range refs {
			if v, err := r.Get(ctx); v != 7 || err != nil {
				t.Errorf("%s, %s: %d, %v", when, name, v, err)
			}
		}
		if _, err := shaped.With(raysys.CPU(1000)).Go(ctx, 7).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("%s: more than any worker has: %v", when, err)
		}
		f.kill(worker)
	}
}
