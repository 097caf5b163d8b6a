package tasks_test

import (
	"context"
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// A goroutine that a task leaves behind sees the end of the task's context, whenever it first asks, and however the
// task ended.
func TestLeftBehindGoroutineSeesTheEnd(t *testing.T) {
	for how, result := range map[string]error{"returned": nil, "failed": errBoom, "panicked": raysys.ErrPanic} {
		for _, touched := range []bool{true, false} {
			table := raysys.NewTable()
			ctxs := make(chan context.Context, 1)
			leaves := tasks.Define0In(table, "leaves", func(ctx context.Context) (int, error) {
				if touched {
					ctx.Done()
				}
				ctxs <- ctx
				if result == error(raysys.ErrPanic) {
					panic("x")
				}
				return 1, result
			})
			_, ctx := nodetest.Node(t, table, 1)
			if _, err := nodetest.Get(t, ctx, leaves.Go(ctx)); !errors.Is(err, result) {
				t.Fatalf("%s: %v", how, err)
			}
			left := <-ctxs
			nodetest.Eventually(t, "the context has an error", func() bool { return left.Err() != nil })
			nodetest.Arrive(t, left.Done(), how+": the context is done")
			sub, cancel := context.WithCancel(left)
			nodetest.Arrive(t, sub.Done(), how+": a derived context is done")
			cancel()
			if !errors.Is(left.Err(), context.Canceled) || context.Cause(left) == nil {
				t.Errorf("%s: Err %v, Cause %v; want Canceled and a cause", how, left.Err(), context.Cause(left))
			}
		}
	}
}

// A goroutine that a task leaves waiting in Get keeps the accounts of CPUs straight, whatever runs meanwhile.
func TestLeftBehindGet(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	waits := make(chan struct{}, 10)
	done := make(chan struct{}, 10)
	leaves := tasks.DefineIn(table, "leaves", func(ctx context.Context, h raysys.Handle[int]) (int, error) {
		go func() {
			waits <- struct{}{}
			h.Ref().Get(ctx)
			done <- struct{}{}
		}()
		<-waits
		return 1, nil
	})
	one := tasks.Define0In(table, "one", func(context.Context) (int, error) { return 1, nil })
	n, ctx := nodetest.Node(t, table, 2)
	h := hold.With(raysys.CPU(0)).Go(ctx).Handle()
	nodetest.Arrive(t, began, "the gate runs")
	for range 10 {
		nodetest.Want(t, ctx, leaves.Go(ctx, h), 1)
		nodetest.Want(t, ctx, one.With(raysys.CPU(2)).Go(ctx), 1)
		nodetest.Want(t, ctx, one.With(raysys.CPU(0.5)).Go(ctx), 1)
	}
	close(open)
	for range 10 {
		nodetest.Arrive(t, done, "the goroutine comes back")
	}
	nodetest.Eventually(t, "all CPUs are free again", func() bool { return engineOf(n).FreeCPU() == 2 })
	nodetest.Want(t, ctx, one.With(raysys.CPU(2)).Go(ctx), 1)
}
