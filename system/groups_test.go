package system_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	groupWhere = tasks.DefineIn(table, "group where", func(ctx context.Context, _ int) (raysys.NodeID, error) { return system.NodeOf(ctx).Name(), nil })
	groupWaits = tasks.DefineIn(table, "group waits", func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
)

func twoCPUs(c *system.Config) { c.Resources.CPU = 2 }

func oneCPUEach(n int) []raysys.Resources {
	return slices.Repeat([]raysys.Resources{{CPU: 1}}, n)
}

// TestGroupsInCluster: bundles are spread over the nodes, and tasks run at the node of their bundle; when that dies only its
// bundles get another node, and work that waited for them goes there; a removal frees the room of all; and a group goes with the
// node of the driver that has made it, unless it is detached.
func TestGroupsInCluster(t *testing.T) {
	inBubble(t, func(b *bubble) {
		workers := map[raysys.NodeID]*system.Node{}
		for _, name := range []raysys.NodeID{"a", "b", "c", "d"} {
			workers[name], _ = b.join(name, system.Worker, twoCPUs)
		}
		cfg := system.Config{Name: "driver", Table: table, Namespace: "test", Cluster: over(b.net.Transport("driver"), system.ClusterConfig{Store: b.kv, Role: system.Driver})}
		driver, end := b.start(cfg)
		b.end = append(b.end, end)
		ctx := driver.Context(context.Background())
		<-time.After(time.Second) // of the bubble: the nodes have told their loads
		g, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(3), groups.Named("training"), groups.Detached())
		if err != nil {
			t.Fatal(err)
		}
		at, err := g.Nodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		runsAt := func(g groups.Group, at []raysys.NodeID) {
			t.Helper()
			for i, want := range at {
				if got, err := groupWhere.With(g.Bundle(i)).Go(ctx, 0).Get(ctx); got != want || err != nil {
					t.Errorf("the task in bundle %d, which is at %s, ran at %q, %v", i, want, got, err)
				}
			}
		}
		runsAt(g, at)
		for range 4 { // the bundles take turns, so that what is submitted at one moment does not wait for one of them
			var any []raysys.NodeID
			for range at {
				<-time.After(100 * time.Millisecond) // what the nodes report is from after the last task
				got, err := groupWhere.With(g.AnyBundle()).Go(ctx, 0).Get(ctx)
				if err != nil {
					t.Error(err)
				}
				any = append(any, got)
			}
			if slices.Sort(any); !slices.Equal(any, slices.Sorted(slices.Values(at))) {
				t.Errorf("tasks in any bundle ran at %q, and the bundles are at %q", any, at)
			}
		}
		if _, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(5)); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("five nodes of four: %v", err)
		}

		if err := workers[at[1]].Kill(context.Background(), errors.New("killed")); err != nil {
			t.Fatal(err)
		}
		later := groupWhere.With(g.Bundle(1)).Go(ctx, 0)
		got, err := later.Get(ctx)
		if err != nil || slices.Contains(at, got) {
			t.Errorf("the task in the bundle of a dead node ran at %q, %v", got, err)
		}
		moved, err := g.Nodes(ctx)
		if err != nil || moved[0] != at[0] || moved[2] != at[2] || moved[1] != got {
			t.Errorf("bundles at %v are at %v after the death of %s, %v", at, moved, at[1], err)
		}

		own, err := groups.Create(ctx, placement.Spread, oneCPUEach(2))
		if err == nil {
			err = own.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		waits := groupWaits.With(g.Bundle(0)).Go(ctx, 0)
		<-time.After(time.Second)
		if err := g.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := waits.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
			t.Errorf("a task that ran in a group that was removed: %v", err)
		}
		last, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(3), groups.Named("training"), groups.Detached())
		if err == nil {
			err = last.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}

		end() // the driver leaves, and what it has made goes with it
		_, ctx = b.join("next", system.Driver)
		found, err := groups.Lookup(ctx, "training")
		if err != nil {
			t.Fatal(err)
		}
		if at, err := found.Nodes(ctx); err != nil || len(at) != 3 {
			t.Errorf("a detached group after the end of its driver: %v, %v", at, err)
		}
		all, err := groups.Create(ctx, placement.Spread, oneCPUEach(3)) // all that is free, if the room of the other group is
		if err == nil {
			err = all.Wait(ctx)
		}
		if err != nil {
			t.Errorf("the room of a group whose driver has ended: %v", err)
		}
		runsAt(found, must(t)(found.Nodes(ctx)))
	})
}

func must(t *testing.T) func([]raysys.NodeID, error) []raysys.NodeID {
	return func(at []raysys.NodeID, err error) []raysys.NodeID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
}

// TestDrainMovesBundles: a node that drains gives its bundles to others, and what runs in them there goes on to its end.
func TestDrainMovesBundles(t *testing.T) {
	inBubble(t, func(b *bubble) {
		workers := map[raysys.NodeID]*system.Node{}
		for _, name := range []raysys.NodeID{"a", "b", "c"} {
			workers[name], _ = b.join(name, system.Worker, twoCPUs)
		}
		_, ctx := b.join("driver", system.Driver)
		<-time.After(time.Second)
		g, err := groups.Create(ctx, placement.StrictPack, oneCPUEach(2))
		if err != nil {
			t.Fatal(err)
		}
		at := must(t)(g.Nodes(ctx))
		if err := workers[at[0]].Drain(ctx); err != nil {
			t.Fatal(err)
		}
		moved := must(t)(g.Nodes(ctx))
		if moved[0] == at[0] || moved[1] != moved[0] {
			t.Errorf("bundles at %v are at %v after %s has drained", at, moved, at[0])
		}
		for i, want := range moved {
			if got, err := groupWhere.With(g.Bundle(i)).Go(ctx, 0).Get(ctx); got != want || err != nil {
				t.Errorf("the task in bundle %d, which is at %s, ran at %q, %v", i, want, got, err)
			}
		}
	})
}

type groupGrain struct{ n int }

var (
	groupKind = grains.DefineIn[groupGrain](table, "group grain", grains.Holds(raysys.CPU(1)))
	groupAt   = grains.Method0(groupKind, "at", func(g *groupGrain, ctx context.Context) ([]string, error) {
		g.n++
		child, err := groupWhere.With(raysys.CPU(0)).Go(ctx, 0).Get(ctx)
		return []string{string(system.NodeOf(ctx).Name()), string(child), fmt.Sprint(g.n)}, err
	})
	groupHangs = grains.Action0(groupKind, "hangs", func(_ *groupGrain, ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
)

// TestGrainsFollowBundles: a grain is where its bundle is, follows it when its node dies or drains, also for calls that name no
// bundle from a node that has called it there, and ends with its group.
func TestGrainsFollowBundles(t *testing.T) {
	inBubble(t, func(b *bubble) {
		workers := map[raysys.NodeID]*system.Node{}
		for _, name := range []raysys.NodeID{"a", "b", "c", "d"} {
			workers[name], _ = b.join(name, system.Worker, twoCPUs)
		}
		_, ctx := b.join("driver", system.Driver)
		<-time.After(time.Second) // of the bubble: the nodes have told their loads
		g, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(2))
		if err != nil {
			t.Fatal(err)
		}
		grain := groupKind.Get("x")
		// calls checks that the grain is at the bundle's node with so many calls, and that what it submits is in the group.
		calls := func(m grains.Func0[groupGrain, []string], want string) {
			t.Helper()
			got, err := m.Call(ctx, grain).Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			at := must(t)(g.Nodes(ctx))
			if got[0] != string(at[1]) || !slices.Contains(at, raysys.NodeID(got[1])) || got[2] != want {
				t.Errorf("a grain whose bundle is at %s of %v, with its child and its calls: %v, want %s calls", at[1], at, got, want)
			}
		}
		named := groupAt.With(g.Bundle(1), groups.CaptureChildren())
		calls(named, "1")
		calls(groupAt.With(g.Bundle(0)), "2") // the first decides
		if err := workers[must(t)(g.Nodes(ctx))[1]].Kill(context.Background(), errors.New("killed")); err != nil {
			t.Fatal(err)
		}
		calls(groupAt, "1")
		if err := workers[must(t)(g.Nodes(ctx))[1]].Drain(ctx); err != nil {
			t.Fatal(err)
		}
		calls(groupAt, "1")

		hangs := groupHangs.Call(ctx, grain)
		<-time.After(time.Second)
		if err := g.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := hangs.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
			t.Errorf("a turn in a group that was removed: %v", err)
		}
		if _, err := named.Call(ctx, grain).Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
			t.Errorf("a call that names a group which was removed: %v", err)
		}
		if _, err := groupAt.Call(ctx, grain).Get(ctx); err != nil {
			t.Errorf("a call that names no group: %v", err)
		}
	})
}

// groupEnters takes the node of each task that has begun.
var groupEnters chan raysys.NodeID

var groupRuns = tasks.DefineIn(table, "group runs", func(ctx context.Context, _ int) (int, error) {
	groupEnters <- system.NodeOf(ctx).Name()
	<-ctx.Done()
	return 0, context.Cause(ctx)
})

// TestRemoveAfterDrain: of the work in a bundle that is moved off a node which drains, that which waits begins in the new place and
// that which runs goes on where it is; Remove cancels it in both places.
func TestRemoveAfterDrain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		groupEnters = make(chan raysys.NodeID, 4)
		workers := map[raysys.NodeID]*system.Node{}
		for _, name := range []raysys.NodeID{"a", "b"} {
			workers[name], _ = b.join(name, system.Worker, twoCPUs)
		}
		driver, ctx := b.join("driver", system.Driver)
		<-time.After(time.Second)
		g, err := groups.Create(ctx, placement.StrictPack, oneCPUEach(1))
		if err != nil {
			t.Fatal(err)
		}
		at := must(t)(g.Nodes(ctx))
		runs := groupRuns.With(g.Bundle(0)).Go(ctx, 0)
		if n := <-groupEnters; n != at[0] {
			t.Errorf("the first task runs at %s, and its bundle is at %v", n, at)
		}
		waits := groupRuns.With(g.Bundle(0)).Go(ctx, 0)
		<-time.After(time.Second)
		drained := make(chan error, 1)
		go func() { drained <- workers[at[0]].Drain(ctx) }()
		next := <-groupEnters
		if moved := must(t)(g.Nodes(ctx)); next == at[0] || next != moved[0] {
			t.Errorf("the task that waited runs at %s, and the bundle was moved from %v to %v", next, at, moved)
		}
		if raysys.PhaseOf(runs) != raysys.PhasePending {
			_, err := runs.Get(ctx)
			t.Errorf("the task that ran has ended with the move: %v", err)
		}
		if err := g.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		for what, r := range map[string]raysys.Ref[int]{"at the node that drains": runs, "in the new place": waits} {
			if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
				t.Errorf("the task %s, of a group that was removed: %v", what, err)
			}
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		<-time.After(time.Second)
		st, err := driver.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range st.Nodes {
			if n.Free.CPU != n.Resources.CPU {
				t.Errorf("node %s has %v free of %v", n.Name, n.Free, n.Resources)
			}
		}
	})
}
