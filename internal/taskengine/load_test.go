package taskengine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
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
			nodetest.Want(t, d.ctx(), begin(), 1)
		}
		said := loadreport.Load{Inbound: 4, Mean: time.Second} // one of them is this node's
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
		nodetest.Want(t, d.ctx(), first, 1)
		nodetest.Want(t, d.ctx(), second, 1)
		since("both were answered", -1)
	})
}

// TestLoadBehindAnswer: a load that leaves behind the answer of a task has that task no more: whoever sees the answer
// would take the node for busy, and send what follows from the result elsewhere.
func TestLoadBehindAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFunctions()
		d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 1)
		l := join(t, d, w)
		answers := 0
		l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, _ []byte) fate {
			if k != wire.KindTaskResult {
				return deliver
			}
			answers++
			if now := w.engine.Load(); now.Inbound != 0 || now.Busy != 0 || now.Free != 1 {
				t.Errorf("answer %d: the load of a node that answers its only task is %+v, want that of an idle node", answers, now)
			}
			return deliver
		})
		nodetest.Want(t, d.ctx(), f.square.Go(d.ctx(), 3), 9)
		synctest.Wait()
		if _, err := nodetest.Get(t, d.ctx(), f.fail.Go(d.ctx(), "no")); err == nil {
			t.Error("a task that fails ended well")
		}
		synctest.Wait()
		if answers != 2 {
			t.Errorf("%d answers to two tasks", answers)
		}
	})
}

// TestDrainWaitsForAnswers: a drain is not over while an answer is being given that no worker gives, and ends with it.
func TestDrainWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFunctions()
		var to atomic.Pointer[end]
		d := newHost(t, "driver", f.table, 0, func(c *taskengine.Config) {
			c.Place = func(taskengine.PlaceRequest) (wire.Peer, error) { return to.Load(), nil }
		})
		w := newHost(t, "worker", f.table, 1)
		l := join(t, d, w)
		to.Store(l.ends[0])
		var drained <-chan error
		l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, _ []byte) fate {
			if k == wire.KindTaskResult && drained == nil {
				drained = w.drain()
				synctest.Wait()
				select {
				case err := <-drained:
					t.Errorf("the drain ended before the answer to a task was sent: %v", err)
				default:
				}
			}
			return deliver
		})
		if _, err := nodetest.Get(t, d.ctx(), f.square.With(raysys.CPU(3)).Go(d.ctx(), 1)); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("a task that the worker cannot run: %v", err)
		}
		mustDrain(t, drained)
	})
}

// TestMeanOfFew: a node tells no mean while fewer tasks have been measured than it has CPUs.
func TestMeanOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		nap := tasks.DefineIn(table, "nap", func(ctx context.Context, d time.Duration) (int, error) {
			<-time.After(d)
			return 0, nil
		})
		a, b := newHost(t, "a", table, 4), newHost(t, "b", table, 4)
		join(t, a, b)
		for i := range 8 {
			r := nap.Go(a.ctx(), 20*time.Millisecond)
			<-time.After(time.Second) // a worker runs it, and not who waits for it
			nodetest.Want(t, a.ctx(), r, 0)
			if mean := a.engine.Load().Mean; (mean == 0) != (i < 3) {
				t.Errorf("after %d tasks on 4 CPUs a mean of %v is told", i+1, mean)
			}
		}
	})
}
