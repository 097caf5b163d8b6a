package testkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

type licensed struct{}

func (*licensed) Where(ctx context.Context) (raysys.NodeID, error) {
	return raysys.NodeID(at(ctx)), nil
}

// TestWaitForResources: work that asks for what no node has fails at once. With WaitForResources it waits, a task and the calls of
// a grain, until their deadline, or until a node joins that has it, where it then runs.
func TestWaitForResources(t *testing.T) {
	const waited = 3 * time.Minute
	table := raysys.NewTable()
	where := tasks.DefineIn(table, "where", func(ctx context.Context, _ int) (raysys.NodeID, error) { return raysys.NodeID(at(ctx)), nil })
	where = where.With(raysys.Resource("licence", 1))
	waits := grains.DefineIn[licensed](table, "waits", grains.Holds(raysys.Resource("licence", 1), raysys.WaitForResources()))
	kind := grains.DefineIn[licensed](table, "kind", grains.Holds(raysys.Resource("licence", 1)))
	of, ofKind := grains.Method0(waits, "where", (*licensed).Where), grains.Method0(kind, "where", (*licensed).Where)
	testkit.Virtual(t, func(k *testkit.Kit) {
		c, ctx := k.Cluster(), k.Context()
		c.Ready()
		c.Drain(2)
		synctest.Wait()
		began := time.Now()
		if _, err := where.Go(ctx, 0).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("a task that no node has resources for, without WaitForResources: %v", err)
		}
		if _, err := ofKind.Call(ctx, kind.Get("a")).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("a grain that no node has resources for, without WaitForResources: %v", err)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("work that no node has resources for fails after %v, not at once", d)
		}
		minute := raysys.Deadline(time.Minute)
		if _, err := where.With(raysys.WaitForResources(), minute).Go(ctx, 0).Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Errorf("a task with WaitForResources and a deadline: %v", err)
		}
		if _, err := of.With(minute).Call(ctx, waits.Get("late")).Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Errorf("a call with a deadline to a grain with WaitForResources: %v", err)
		}
		long := raysys.Deadline(time.Hour)
		task := where.With(raysys.WaitForResources()).Go(ctx, 0)
		call := of.With(long).Call(ctx, waits.Get("a"))
		other := ofKind.With(raysys.WaitForResources(), long).Call(ctx, kind.Get("b"))
		cancelled := where.With(raysys.WaitForResources()).Go(ctx, 0)
		<-time.After(waited)
		if !cancelled.Cancel() {
			t.Error("a task that waits for resources cannot be cancelled")
		}
		if raysys.PhaseOf(task) != raysys.PhasePending || raysys.PhaseOf(call) != raysys.PhasePending {
			t.Fatal("the work that waits for resources has ended before there are any")
		}
		st, err := c.Status()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, d := range st.Demand {
			if got[d.Resources.String()] = d.Count; !d.Unplaced || d.Oldest < waited || d.Oldest > waited+time.Minute {
				t.Errorf("status says of what waits since %v for a node: %+v", waited, d)
			}
		}
		if diff := cmp.Diff(map[string]int{"CPU 1, licence 1": 1, "licence 1": 2}, got); diff != "" {
			t.Errorf("status says another demand:\n%s", diff)
		}
		c.Restart(2)
		c.Ready()
		for what, ref := range map[string]raysys.Ref[raysys.NodeID]{"task": task, "call of a kind that waits": call, "call that waits": other} {
			if n, err := ref.Get(ctx); err != nil || n != c.Name(2) {
				t.Errorf("the %s ran on node %q, want %s, which has the licence (%v)", what, n, c.Name(2), err)
			}
		}
		if st, err := c.Status(); err != nil || st.Demand != nil {
			t.Errorf("nothing waits, and status says %+v (%v)", st.Demand, err)
		}
	}, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i == 2 {
			cfg.Resources.Custom = map[string]float64{"licence": 3}
		}
	}))
}
