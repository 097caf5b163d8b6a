package groups_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/tasks"
)

// TestAnyBundleBeginsWhereRoomIs: a task that may be in any bundle, and waits since all are full, begins when one of them gets room,
// whichever it is.
func TestAnyBundleBeginsWhereRoomIs(t *testing.T) {
	tb := raysys.NewTable()
	running, gates := make(chan int, 8), [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	hold := tasks.DefineIn(tb, "hold", func(ctx context.Context, bundle int) (int, error) {
		running <- bundle
		select {
		case <-gates[bundle]:
		case <-ctx.Done():
		}
		return bundle, nil
	})
	next := tasks.DefineIn(tb, "next", func(context.Context, int) (int, error) { return 7, nil })
	_, ctx := start(t, tb)
	g, err := groups.Create(ctx, placement.Pack, cpus(1, 1))
	if err == nil {
		err = g.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range gates {
		hold.With(g.Bundle(i)).Go(ctx, i)
		<-running
	}
	for _, free := range []int{1, 0} {
		waits := next.With(g.AnyBundle(), raysys.Deadline(10*time.Second)).Go(ctx, 0)
		close(gates[free])
		if got, err := waits.Get(ctx); got != 7 || err != nil {
			t.Errorf("a task that may be in any bundle, of which bundle %d has room: %v, %v", free, got, err)
		}
		gates[free] = make(chan struct{})
		hold.With(g.Bundle(free)).Go(ctx, free)
		<-running
	}
	for _, gate := range gates {
		close(gate)
	}
}
