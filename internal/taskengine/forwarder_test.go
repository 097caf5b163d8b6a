package taskengine_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// TestForwarderEnds: the forwarder of peers that are all gone takes no wake along that is for the one of those that
// have come since: tasks would wait for ever.
func TestForwarderEnds(t *testing.T) {
	n, _ := nodetest.Node(t, raysys.NewTable(), 1)
	for range 100 {
		if engineOf(n).StopForwarder() {
			t.Fatal("a forwarder ended with the wake of the next one, which sleeps on beside a queue that is not empty")
		}
	}
}

// TestNoStallBesideRoom: an answer that comes after the forwarder has seen no room, and before it waits for more answers, makes it go
// on. The CPU that became free would else idle until the next answer, or report of load.
func TestNoStallBesideRoom(t *testing.T) {
	f := newFunctions()
	running, end := make(chan int), make(chan int)
	blocks := tasks.DefineIn(f.table, "blocks", func(_ context.Context, x int) (int, error) {
		running <- x
		return <-end, nil
	})
	d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 2)
	join(t, d, w)
	ctx := d.ctx()
	one, two := blocks.Go(ctx, 1), blocks.Go(ctx, 2)
	<-running
	<-running
	if !d.engine.Stalls() {
		t.Error("with a task for each CPU of the peer the forwarder goes on, want it to wait")
	}
	end <- 1
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[int]{one, two}, 1); err != nil {
		t.Fatal(err)
	}
	if d.engine.Stalls() {
		t.Error("with one of two tasks answered the forwarder waits for another answer, want it to see the room")
	}
	end <- 2
	for _, r := range []raysys.Ref[int]{one, two} {
		if _, err := r.Get(ctx); err != nil {
			t.Error(err)
		}
	}
}
