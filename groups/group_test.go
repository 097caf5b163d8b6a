package groups_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a node with 4 CPUs and 2 GPUs.
func start(t *testing.T, tb *raysys.Table, change ...func(*system.Config)) (*system.Node, context.Context) {
	t.Helper()
	cfg := system.Config{Table: tb, Resources: raysys.Resources{CPU: 4, GPU: 2}}
	for _, c := range change {
		c(&cfg)
	}
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, n.Context(t.Context())
}

func cpus(list ...float64) (all []raysys.Resources) {
	for _, n := range list {
		all = append(all, raysys.Resources{CPU: n})
	}
	return all
}

// TestGroup: tasks of a group run in its bundles, with their devices, and no other work draws from these. What the bundle has no
// room for waits in it, and a removal cancels what runs and frees the room.
func TestGroup(t *testing.T) {
	tb := raysys.NewTable()
	running, stop := make(chan string, 8), make(chan struct{})
	var ended atomic.Int32
	work := tasks.DefineIn(tb, "work", func(ctx context.Context, name string) (string, error) {
		defer ended.Add(1)
		running <- name
		select {
		case <-stop:
			return strings.Join(raysys.Devices(ctx), ","), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	n, ctx := start(t, tb)
	g, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 1, GPU: 1}, {CPU: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if nodes, err := g.Nodes(ctx); err != nil || len(nodes) != 2 || nodes[0] != n.Name() || nodes[1] != n.Name() {
		t.Fatalf("the bundles are at %v, %v", nodes, err)
	}
	device := work.With(raysys.GPU(1), g.Bundle(0)).Go(ctx, "device")
	<-running
	waits := work.With(g.Bundle(0)).Go(ctx, "waits")
	one, two := work.With(g.Bundle(1)).Go(ctx, "one"), work.With(g.AnyBundle(), raysys.CPU(0.5)).Go(ctx, "two")
	<-running
	<-running
	free := work.Go(ctx, "free") // the one CPU that no bundle has
	if name := <-running; name != "free" {
		t.Fatalf("%s runs in a bundle that has no room for it", name)
	}
	if _, err := groups.Create(ctx, placement.Pack, cpus(5)); !errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), "the most that one node has is CPU 4") {
		t.Errorf("a group that never fits: %v", err)
	}
	close(stop)
	if got, err := device.Get(ctx); err != nil || got != "0" {
		t.Errorf("the task in the bundle holds the device %q, %v", got, err)
	}
	for _, r := range []raysys.Ref[string]{waits, one, two, free} {
		if got, err := r.Get(ctx); err != nil || got != "" {
			t.Errorf("a task without devices: %q, %v", got, err)
		}
	}
	stop = make(chan struct{})
	for len(running) > 0 {
		<-running
	}
	ended.Store(0)
	last := []raysys.Ref[string]{work.With(g.Bundle(0)).Go(ctx, "runs"), work.With(g.Bundle(0)).Go(ctx, "waits")}
	<-running
	if err := g.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if ended.Load() != 1 {
		t.Error("the group is removed before what ran in it has returned")
	}
	for _, r := range last {
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
			t.Errorf("work of a group that was removed: %v", err)
		}
	}
	all, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 4, GPU: 2}})
	if err == nil {
		err = all.Wait(ctx)
	}
	if err != nil {
		t.Errorf("the room of a group that was removed is not free: %v", err)
	}
	if err := g.Remove(ctx); err != nil {
		t.Errorf("a second removal: %v", err)
	}
	if _, err := work.With(g.Bundle(0)).Go(ctx, "late").Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
		t.Errorf("work of a group that is gone: %v", err)
	}
	if err := g.Wait(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
		t.Errorf("a wait for a group that is gone: %v", err)
	}
}

// TestWaitsForRoom: a group without room, and the work in it, wait until there is some.
func TestWaitsForRoom(t *testing.T) {
	tb := raysys.NewTable()
	work := tasks.DefineIn(tb, "work", func(context.Context, int) (int, error) { return 7, nil })
	_, ctx := start(t, tb)
	first, err := groups.Create(ctx, placement.StrictPack, cpus(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	second, err := groups.Create(ctx, placement.Spread, cpus(2))
	if err != nil {
		t.Fatal(err)
	}
	later := work.With(second.Bundle(0)).Go(ctx, 0)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := second.Wait(ended); !errors.Is(err, raysys.ErrCancelled) && !errors.Is(err, context.Canceled) {
		t.Errorf("a wait whose context has ended: %v", err)
	}
	if err := first.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := later.Get(ctx); got != 7 || err != nil {
		t.Errorf("the work of a group that has waited: %v, %v", got, err)
	}
}

// TestReady: the reference is settled once every bundle has its node, as an argument too, and fails when the group goes before.
func TestReady(t *testing.T) {
	tb := raysys.NewTable()
	count := tasks.DefineIn(tb, "count", func(_ context.Context, nodes []raysys.NodeID) (int, error) { return len(nodes), nil })
	_, ctx := start(t, tb)
	var made [3]groups.Group // each of which leaves no room for another
	var ready [3]raysys.Ref[[]raysys.NodeID]
	for i := range made {
		g, err := groups.Create(ctx, placement.StrictPack, cpus(2, 1))
		if err != nil {
			t.Fatal(err)
		}
		made[i], ready[i] = g, g.Ready(ctx)
		if i > 0 {
			continue
		}
		if nodes, err := ready[0].Get(ctx); len(nodes) != 2 || err != nil {
			t.Errorf("a group with room: %q, %v", nodes, err)
		}
	}
	counted := count.With(raysys.CPU(0)).On(ctx, ready[1])
	if raysys.PhaseOf(ready[1]) != raysys.PhasePending || raysys.PhaseOf(counted) != raysys.PhasePending {
		t.Error("a group without room is ready")
	}
	for _, g := range []groups.Group{made[2], made[0]} {
		if err := g.Remove(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ready[2].Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
		t.Errorf("a group that was removed while it waited: %v", err)
	}
	if n, err := counted.Get(ctx); n != 2 || err != nil {
		t.Errorf("a task of the nodes of a group that got room: %d, %v", n, err)
	}
	if _, err := (groups.Group{}).Ready(ctx).Get(ctx); !errors.Is(err, raysys.ErrBadOption) {
		t.Errorf("the zero Group: %v", err)
	}
}

// TestNames: a name is of one group, and finds it.
func TestNames(t *testing.T) {
	tb := raysys.NewTable()
	work := tasks.DefineIn(tb, "work", func(context.Context, int) (int, error) { return 7, nil })
	_, ctx := start(t, tb)
	if _, err := groups.Lookup(ctx, "training"); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("an unknown name: %v", err)
	}
	g, err := groups.Create(ctx, placement.Pack, cpus(1), groups.Named("training"), groups.Detached())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := groups.Create(ctx, placement.Pack, cpus(1), groups.Named("training")); !errors.Is(err, raysys.ErrNameTaken) {
		t.Errorf("a second group of a name: %v", err)
	}
	found, err := groups.Lookup(ctx, "training")
	if err != nil || found != g {
		t.Errorf("the name finds %v, %v", found, err)
	}
	if got, err := work.With(found.Bundle(0)).Go(ctx, 0).Get(ctx); got != 7 || err != nil {
		t.Errorf("work in a group that was looked up: %v, %v", got, err)
	}
	if err := found.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := groups.Create(ctx, placement.Pack, cpus(1), groups.Named("training")); err != nil {
		t.Errorf("the name of a group that was removed: %v", err)
	}
}

// TestCaptureChildren: what a task submits is in its group, with what that submits; without CaptureChildren it is not. A task that
// waits for its children gives its bundle's CPU to them.
func TestCaptureChildren(t *testing.T) {
	tb := raysys.NewTable()
	var leaf tasks.Task[int, int]
	chain := tasks.DefineIn(tb, "chain", func(ctx context.Context, _ int) (int, error) { return leaf.Go(ctx, 1).Get(ctx) })
	several := tasks.DefineIn(tb, "several", func(ctx context.Context, _ int) (n int, err error) {
		for _, r := range leaf.Map(ctx, []int{1, 2, 3}) {
			v, err := r.Get(ctx)
			if err != nil {
				return 0, err
			}
			n += v
		}
		return n, nil
	})
	leaf = tasks.DefineIn(tb, "leaf", func(_ context.Context, n int) (int, error) { return n, nil })
	_, ctx := start(t, tb)
	g, err := groups.Create(ctx, placement.Pack, cpus(1))
	if err != nil {
		t.Fatal(err)
	}
	all, err := groups.Create(ctx, placement.Pack, cpus(3)) // nothing is left beside the groups
	if err == nil {
		err = errors.Join(g.Wait(ctx), all.Wait(ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
	inside := chain.With(g.Bundle(0), groups.CaptureChildren())
	if got, err := inside.Go(ctx, 0).Get(ctx); got != 1 || err != nil {
		t.Errorf("a task whose child is in its group: %v, %v", got, err)
	}
	if got, err := several.With(groups.CaptureChildren(), g.AnyBundle()).Go(ctx, 0).Get(ctx); got != 6 || err != nil {
		t.Errorf("a task whose children are in its group: %v, %v", got, err)
	}
}

// TestBadGroups: what cannot be meant fails at once, with its type and its words.
func TestBadGroups(t *testing.T) {
	tb := raysys.NewTable()
	work := tasks.DefineIn(tb, "work", func(context.Context, int) (int, error) { return 7, nil })
	_, ctx := start(t, tb)
	g, err := groups.Create(ctx, placement.Pack, cpus(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func() error
		err  error
		says string
	}{
		{"no bundles", func() error { _, err := groups.Create(ctx, placement.Pack, nil); return err }, raysys.ErrBadOption, "give 1 to 256"},
		{"no strategy", func() error { _, err := groups.Create(ctx, "", cpus(1)); return err }, raysys.ErrBadOption, "STRICT_SPREAD"},
		{"nothing", func() error { _, err := groups.Create(ctx, placement.Pack, cpus(1, 0)); return err }, raysys.ErrBadOption, "bundle 1"},
		{"too fine", func() error {
			_, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 1.0005}})
			return err
		}, raysys.ErrBadOption, "thousandths"},
		{"a device and a half", func() error {
			_, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{GPU: 1.5}})
			return err
		}, raysys.ErrBadOption, "1.5"},
		{"an empty name", func() error { _, err := groups.Create(ctx, placement.Pack, cpus(1), groups.Named("")); return err }, raysys.ErrBadOption, "Named"},
		{"detached without a name", func() error {
			_, err := groups.Create(ctx, placement.Pack, cpus(1), groups.Detached())
			return err
		}, raysys.ErrBadOption, "Detached without Named"},
		{"no runtime", func() error { _, err := groups.Create(context.Background(), placement.Pack, cpus(1)); return err }, raysys.ErrNoRuntime, ""},
		{"never apart", func() error { _, err := groups.Create(ctx, placement.StrictSpread, cpus(1, 1)); return err }, raysys.ErrNoCapacity, "2 different nodes"},
		{"a device nobody has", func() error {
			_, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{GPU: 1, GPUModel: "H900"}})
			return err
		}, raysys.ErrNoCapacity, "H900"},
		{"the zero group", func() error { return groups.Group{}.Wait(ctx) }, raysys.ErrBadOption, "zero Group"},
		{"an index below", func() error { _, err := work.With(g.Bundle(-2)).Go(ctx, 0).Get(ctx); return err }, raysys.ErrBadOption, "bundle -2"},
		{"AnyBundle by its number", func() error { _, err := work.With(g.Bundle(-1)).Go(ctx, 0).Get(ctx); return err }, raysys.ErrBadOption, "bundle -1"},
		{"nothing to capture into", func() error { _, err := work.With(groups.CaptureChildren()).Go(ctx, 0).Get(ctx); return err }, raysys.ErrBadOption, "stands beside"},
		{"captures, given before its bundle", func() error {
			_, err := work.With(groups.CaptureChildren()).With(g.Bundle(0)).Go(ctx, 0).Get(ctx)
			return err
		}, nil, ""},
		{"an index beyond", func() error { _, err := work.With(g.Bundle(1)).Go(ctx, 0).Get(ctx); return err }, raysys.ErrBadOption, "which has 1"},
		{"more than any bundle", func() error {
			two, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 1}, {CPU: 1, Memory: 1 << 20}, {CPU: 1}})
			if err != nil {
				return err
			}
			_, err = work.With(two.AnyBundle(), raysys.CPU(2)).Go(ctx, 0).Get(ctx)
			return err
		}, raysys.ErrNoCapacity, "its group has bundles of (CPU 1) and (CPU 1, Memory 1 MiB)"},
		{"more than the bundle", func() error { _, err := work.With(g.Bundle(0), raysys.CPU(2)).Go(ctx, 0).Get(ctx); return err }, raysys.ErrNoCapacity, "its bundle has CPU 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.make(); !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("got %v, want %v with %q", err, c.err, c.says)
			}
		})
	}
}

// TestNeverFitsAndWaits: a group that no node could ever hold waits where the node is to wait for resources.
func TestNeverFitsAndWaits(t *testing.T) {
	_, ctx := start(t, raysys.NewTable(), func(cfg *system.Config) { cfg.WaitForResources = true })
	g, err := groups.Create(ctx, placement.Pack, cpus(5))
	if err != nil {
		t.Fatalf("a group of more than the node has: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := g.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("it waits for room: %v", err)
	}
	if err := g.Remove(ctx); err != nil {
		t.Error(err)
	}
}
