package taskengine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// rowOf is what the node has counted of a function.
func rowOf(e *taskengine.Engine, name string) tally.Row {
	for _, r := range taskengine.Functions(e) {
		if r.Name == name {
			return r
		}
	}
	return tally.Row{}
}

// counted waits until the node has counted so much, and no more.
func counted(t *testing.T, e *taskengine.Engine, name string, want tally.Counts) {
	t.Helper()
	nodetest.Eventually(t, fmt.Sprintf("%s: %v are counted", name, want), func() bool { return rowOf(e, name).Outcomes == want })
}

// TestBatchIsTimed: the tasks of a Map are timed behind short ones, of which only some are.
func TestBatchIsTimed(t *testing.T) {
	table := raysys.NewTable()
	short := tasks.DefineIn(table, "short", func(_ context.Context, x int) (int, error) { return x, nil })
	batched := tasks.DefineIn(table, "batched", func(_ context.Context, x int) (int, error) {
		for began := time.Now(); time.Since(began) < 100*time.Microsecond; { // longer than a group takes
			x++
		}
		return x, nil
	})
	n, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 1}})
	e := engineOf(n)
	var refs []raysys.Ref[int]
	for range 3 {
		for range 100 { // no Get: that would run them on this goroutine
			refs = append(refs, short.Go(ctx, 1))
		}
		refs = append(refs, batched.Map(ctx, make([]int, 5))...)
	}
	counted(t, e, "batched", tally.Counts{tally.OK: 15})
	if got := rowOf(e, "batched").Times.Count(); got < 15 {
		t.Errorf("%d of 15 are timed", got)
	}
	raysys.GetAll(ctx, refs)
}

// TestFunctions: each way in which a task runs and ends is counted once, with its function.
func TestFunctions(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	parent := tasks.DefineIn(table, "parent", func(ctx context.Context, n int) (int, error) {
		for i := range n {
			if _, err := one.Go(ctx, i).Get(ctx); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	fails := tasks.DefineIn(table, "fails", func(_ context.Context, how string) (int, error) {
		switch how {
		case "panic":
			panic("index 7")
		case "exit":
			runtime.Goexit()
		}
		return 0, fmt.Errorf("%s 12: %w", how, errBoom)
	})
	n, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 2}})
	e := engineOf(n)

	var refs []raysys.Ref[int]
	for i := range 100 {
		refs = append(refs, one.Go(ctx, i))
	}
	refs = append(refs, one.Map(ctx, make([]int, 50))...)
	refs = append(refs, parent.Go(ctx, 30))
	refs = append(refs, one.With(raysys.CPU(0.5)).Go(ctx, 1), one.With(raysys.CPU(0)).Go(ctx, 1))
	for _, o := range raysys.GetAll(ctx, refs) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	counted(t, e, "one", tally.Counts{tally.OK: 182})
	counted(t, e, "parent", tally.Counts{tally.OK: 1})
	if r := rowOf(e, "one"); r.Times.Count() == 0 || r.Times.P99() == 0 || r.Running != 0 || r.Waiting != 0 {
		t.Errorf("one: %+v", r)
	}

	fails.Go(ctx, "exit")
	counted(t, e, "fails", tally.Counts{tally.Error: 1}) // by a worker: a Get would run it on this goroutine
	for _, how := range []string{"returns", "panic"} {
		if _, err := fails.Go(ctx, how).Get(ctx); err == nil {
			t.Errorf("%s: no error", how)
		}
	}
	again := fails.With(raysys.RetryIf(func(error) bool { return true }), raysys.Retries(2), raysys.Backoff(time.Nanosecond, time.Nanosecond))
	nodetest.Fails(t, ctx, again.Go(ctx, "returns"), errBoom)
	counted(t, e, "fails", tally.Counts{tally.Error: 3, tally.Panic: 1, tally.Retried: 2})
	nodetest.Fails(t, ctx, one.On(ctx, fails.Go(ctx, "input")), errBoom) // it never starts
	counted(t, e, "one", tally.Counts{tally.OK: 182, tally.Cancelled: 1})

	held := hold.Go(ctx)
	nodetest.Arrive(t, began, "it runs")
	held.Cancel()
	counted(t, e, "hold", tally.Counts{tally.Cancelled: 1})
	for range 2 {
		refs = append(refs, hold.Go(ctx))
		nodetest.Arrive(t, began, "it runs")
	}
	waits := one.Go(ctx, 1)
	if r := rowOf(e, "one"); r.Waiting != 1 {
		t.Errorf("one that waits: %+v", r)
	}
	if r := rowOf(e, "hold"); r.Running != 2 {
		t.Errorf("two that run: %+v", r)
	}
	waits.Cancel()
	counted(t, e, "one", tally.Counts{tally.OK: 182, tally.Cancelled: 2})
	close(open)
	counted(t, e, "hold", tally.Counts{tally.OK: 2, tally.Cancelled: 1})

	list := taskengine.Tally(e).Failures()
	if len(list) != 4 {
		t.Fatalf("failures: %+v", list)
	}
	for _, f := range list {
		switch {
		case f.Function != "fails":
			t.Errorf("of another function: %+v", f)
		case strings.HasPrefix(f.Text, "returns 12: boom"):
			if f.Count != 4 || f.Panic || f.Stack != "" {
				t.Errorf("errors: %+v", f)
			}
		case f.Panic:
			if f.Count != 1 || !strings.Contains(f.Text, "index 7") || !strings.Contains(f.Stack, "tally_test.go") {
				t.Errorf("the panic: %+v", f)
			}
		}
	}
}

// TestRunning: a task that runs where it was submitted is seen, and so is the one that runs it in its place; since when is known the next time.
func TestRunning(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	parent := tasks.Define0In(table, "parent", func(ctx context.Context) (int, error) { return hold.Go(ctx).Get(ctx) })
	one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	n, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 1}})
	e := engineOf(n)
	up := parent.Go(ctx)
	nodetest.Arrive(t, began, "the child runs in place of its parent")
	waits := append(one.Map(ctx, make([]int, 300)), one.Go(ctx, 1))
	seen := func() (list []taskengine.Seen) {
		taskengine.EachTask(e, func(s taskengine.Seen) {
			if s.Stage == core.StageRunning {
				list = append(list, s)
			}
		})
		return list
	}
	if list := seen(); len(list) != 2 || list[0].Future.Work().Name() != "hold" || list[1].Future.ID() != core.TaskID(up.ID()) {
		t.Errorf("running: %+v", list)
	}
	nodetest.Eventually(t, "since when is known", func() bool {
		r := rowOf(e, "one")
		list := seen()
		return r.Waiting == 301 && r.Oldest > 0 && list[0].Since == list[1].Since && seen()[0].Since == list[0].Since
	})
	if hold, parent := rowOf(e, "hold"), rowOf(e, "parent"); hold.Running != 1 || parent.Running != 1 {
		t.Errorf("%+v, %+v", hold, parent)
	}
	close(open)
	for _, r := range waits {
		if _, err := r.Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := up.Get(ctx); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "nothing is left", func() bool { return len(seen()) == 0 })
}
