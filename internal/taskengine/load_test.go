package taskengine_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// TestLoadOfIdleNode: a node that says it has nothing to do says that all its CPUs are free. Whoever has just heard so
// must not take it for busy, and move values to another.
func TestLoadOfIdleNode(t *testing.T) {
	table := raysys.NewTable()
	double := tasks.DefineIn(table, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 2)
	l := join(t, d, w)
	ctx, idle := d.ctx(), 0
	for i := range 2000 {
		if got, err := double.Go(ctx, i).Get(ctx); err != nil || got != 2*i {
			t.Fatal(got, err)
		}
		there, inflight, known := d.engine.LoadOf(l.ends[0])
		if !known || inflight != 0 || there.Queued != 0 || there.Inbound != 0 || there.Busy != 0 {
			continue
		}
		if idle++; there.Free != w.cpus {
			t.Fatalf("after task %d the worker says %+v", i, there)
		}
	}
	if idle == 0 {
		t.Error("the worker was never idle")
	}
}
