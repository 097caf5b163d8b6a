package system_test

import (
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

// TestGroupThatHopes: a group for more workers than there are is made while one joins. It waits, as status says, until that one is
// connected, or the cluster has given it up; then all that waits for the group ends with what there is, and status lists it no more. Its name is free for another.
func TestGroupThatHopes(t *testing.T) {
	for name, connects := range map[string]bool{"the worker connects": true, "the worker is given up": false} {
		t.Run(name, func(t *testing.T) { inBubble(t, func(b *bubble) { groupThatHopes(b, connects) }) })
	}
}

func groupThatHopes(b *bubble, connects bool) {
	t := b.t
	b.join("a", system.Worker, twoCPUs)
	b.join("b", system.Worker, twoCPUs)
	driver, ctx := b.join("driver", system.Driver)
	<-time.After(time.Second) // of the bubble: the nodes have told their loads
	listed := func() int {
		t.Helper()
		st, err := driver.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(st.Groups)
	}
	if _, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(4)); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Fatalf("a group for four nodes of two: %v", err)
	}
	others := []raysys.NodeID{"a", "b", "driver"}
	for _, n := range others { // any could relay
		b.net.Cut(n, "c")
	}
	b.join("c", system.Worker, twoCPUs)
	<-time.After(time.Second) // the others know of it
	g, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(4), groups.Named("hopes"))
	if err != nil {
		t.Fatalf("a group for four nodes, while one joins: %v", err)
	}
	ready, work := g.Ready(ctx), groupWhere.With(g.Bundle(0)).Go(ctx, 0)
	call := groupAt.With(g.AnyBundle(), raysys.Deadline(time.Hour)).Call(ctx, groupKind.Get("hopes"))
	<-time.After(time.Second)
	if raysys.PhaseOf(ready) != raysys.PhasePending || raysys.PhaseOf(work) != raysys.PhasePending || listed() != 1 {
		t.Fatalf("while a worker may come: %v, %v, %d groups are listed that wait", raysys.PhaseOf(ready), raysys.PhaseOf(work), listed())
	}
	if connects {
		for _, n := range others {
			b.net.Heal(n, "c")
		}
	}
	<-time.After(time.Minute)
	if raysys.PhaseOf(ready) == raysys.PhasePending || raysys.PhaseOf(work) == raysys.PhasePending || raysys.PhaseOf(call) == raysys.PhasePending {
		t.Fatalf("no worker may come: %v, %v, %v", raysys.PhaseOf(ready), raysys.PhaseOf(work), raysys.PhaseOf(call))
	}
	_, ofReady := ready.Get(ctx)
	_, ofWork := work.Get(ctx)
	_, ofCall := call.Get(ctx)
	_, later := groupWhere.With(g.AnyBundle()).Go(ctx, 0).Get(ctx)
	for what, err := range map[string]error{"Ready": ofReady, "Wait": g.Wait(ctx), "a task in it": ofWork, "a call": ofCall, "a later task": later} {
		if !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("%s of a group for four nodes: %v", what, err)
		}
	}
	if n := listed(); n != 0 {
		t.Errorf("status lists %d groups that wait", n)
	}
	if again, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(2), groups.Named("hopes")); err != nil || again.Wait(ctx) != nil {
		t.Errorf("a group of its name that there is room for: %v", err)
	}
}
