package tasks_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// blockers defines a task that says it runs and then keeps its CPU until open is closed or its context ends.
func blockers(table *raysys.Table) (hold tasks.Task0[int], began chan struct{}, open chan struct{}) {
	began, open = make(chan struct{}, 1000), make(chan struct{})
	hold = tasks.Define0In(table, "hold", func(ctx context.Context) (int, error) {
		began <- struct{}{}
		select {
		case <-open:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	return hold, began, open
}

// A short task never waits behind a long one while a CPU is free.
func TestShortBesideLong(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	short := tasks.DefineIn(table, "short", func(_ context.Context, x int) (int, error) { return x, nil })
	_, ctx := nodetest.Node(t, table, 2)
	long := hold.Go(ctx)
	nodetest.Arrive(t, began, "the long task runs")
	for i := range 1000 {
		nodetest.Want(t, ctx, short.Go(ctx, i), i)
	}
	for i, r := range short.Map(ctx, make([]int, 1000)) {
		if _, err := nodetest.Get(t, ctx, r); err != nil {
			t.Fatalf("task %d of the Map: %v", i, err)
		}
	}
	close(open)
	nodetest.Want(t, ctx, long, 0)
}

// The same for one Map of short and long tasks, wherever the long one stands.
func TestShortBesideLongInOneMap(t *testing.T) {
	for _, at := range []int{0, 1, 50, 99} {
		table := raysys.NewTable()
		open := make(chan struct{})
		mixed := tasks.DefineIn(table, "mixed", func(_ context.Context, long bool) (int, error) {
			if long {
				<-open
			}
			return 1, nil
		})
		_, ctx := nodetest.Node(t, table, 2)
		xs := make([]bool, 100)
		xs[at] = true
		refs := mixed.Map(ctx, xs)
		for i, r := range refs {
			if i != at {
				nodetest.Want(t, ctx, r, 1)
			}
		}
		close(open)
		nodetest.Want(t, ctx, refs[at], 1)
	}
}

// A task that blocks in Get gives its CPU back, and so do all tasks of a Map: the rest of the Map runs meanwhile.
func TestBlockedTaskGivesItsCPUBack(t *testing.T) {
	for name, cpus := range map[string]float64{"one CPU": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			hold, _, open := blockers(table)
			blocks := tasks.DefineIn(table, "blocks", func(ctx context.Context, h raysys.Handle[int]) (int, error) {
				if h.Ref().IsZero() {
					return 1, nil
				}
				return h.Ref().Get(ctx)
			})
			n, ctx := nodetest.Node(t, table, cpus)
			gate := hold.With(raysys.CPU(0)).Go(ctx).Handle()
			hs := []raysys.Handle[int]{gate, gate, gate, {}, gate, {}}
			one := blocks.Go(ctx, gate)
			many := blocks.Map(ctx, hs)
			for i, h := range hs {
				if h.Ref().IsZero() {
					nodetest.Want(t, ctx, many[i], 1)
				}
			}
			nodetest.Want(t, ctx, blocks.Go(ctx, raysys.Handle[int]{}), 1)
			close(open)
			nodetest.Want(t, ctx, one, 0)
			for i, h := range hs {
				if !h.Ref().IsZero() {
					nodetest.Want(t, ctx, many[i], 0)
				}
			}
			nodetest.Eventually(t, "all CPUs are free again", func() bool { return engineOf(n).FreeCPU() == cpus })
		})
	}
}

// A task of a Map that ends its goroutine takes neither the rest of the Map nor the CPU with it.
func TestGoexitInMap(t *testing.T) {
	table := raysys.NewTable()
	exit := exits(table)
	n, ctx := nodetest.Node(t, table, 1)
	refs := exit.Map(ctx, []bool{false, true, false, true, false})
	for i, r := range refs {
		_, err := nodetest.Get(t, ctx, r)
		if (err != nil) != (i%2 == 1) {
			t.Errorf("task %d: %v", i, err)
		}
	}
	nodetest.Eventually(t, "the CPU is free again", func() bool { return engineOf(n).FreeCPU() == 1 })
}

// The wait of a driver for the first of several futures ends with the first, whatever the others do.
func TestWaitForTheShortOne(t *testing.T) {
	table := raysys.NewTable()
	hold, _, open := blockers(table)
	short := tasks.Define0In(table, "short", func(_ context.Context) (int, error) { return 1, nil })
	_, ctx := nodetest.Node(t, table, 3) // two of them for the long ones
	refs := []raysys.Ref[int]{hold.Go(ctx), short.Go(ctx)}
	first, _, err := raysys.Wait(ctx, refs, 1)
	if err != nil || len(first) != 1 || raysys.PhaseOf(first[0]) != raysys.PhaseReady {
		t.Fatalf("Wait: %v, %v", first, err)
	}
	refs = []raysys.Ref[int]{hold.Go(ctx), short.Go(ctx)}
	for i, r := range raysys.AsCompleted(ctx, refs) {
		if i != 1 {
			t.Fatalf("first completed: %d (%v)", i, r)
		}
		break
	}
	close(open)
}
