package taskengine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/taskengine"
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
		there, since, known := d.engine.LoadOf(l.ends[0])
		if !known || since != 0 || there.Queued != 0 || there.Inbound != 0 || there.Busy != 0 {
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

// TestLoadSinceTold: what a node said of its load is corrected by the tasks that have come to it since, less those that
// it has answered since. A node that has just ended a long task is not taken for busy until it says more.
func TestLoadSinceTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, begun := raysys.NewTable(), make(chan struct{})
		pass := tasks.Define0In(table, "pass", func(context.Context) (int, error) {
			begun <- struct{}{}
			<-time.After(time.Second)
			return 1, nil
		})
		d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 2)
		end := join(t, d, w).ends[0]
		begin := func() raysys.Ref[int] {
			r := pass.Go(d.ctx())
			<-begun
			return r
		}
		for range 5 { // the first answers bring the load, and later ones do not: the tasks take as long as before
			want(t, d.ctx(), begin(), 1)
		}
		said := taskengine.Load{Inbound: 4, Mean: time.Second} // one of them is this node's
		since := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if l, n, known := d.engine.LoadOf(end); !known || l != said || n != want {
				t.Errorf("%s: the worker said %+v and has %d tasks more since; got %+v, %d", what, said, want, l, n)
			}
		}
		first := begin()
		d.engine.PeerLoad(end, said)
		since("one runs there", 0)
		second := begin()
		since("another was sent", 1)
		want(t, d.ctx(), first, 1)
		want(t, d.ctx(), second, 1)
		since("both were answered", -1)
	})
}
