package system_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// makeGroup makes a group of a CPU each on two nodes and leaves it.
func makeGroup(ctx context.Context, opts ...groups.Option) (groups.Group, error) {
	g, err := groups.Create(ctx, placement.StrictSpread, oneCPUEach(2), opts...)
	if err == nil {
		err = g.Wait(ctx)
	}
	return g, err
}

type groupMaker struct{}

var (
	// groupLeft makes a group with the name, "" for none, and fails while there are attempts left.
	groupLeft = tasks.DefineIn(table, "group left", func(ctx context.Context, name string) (int, error) {
		var opts []groups.Option
		if name != "" {
			opts = append(opts, groups.Named(name))
		}
		if _, err := makeGroup(ctx, opts...); err != nil {
			return 0, err
		}
		return 0, errShort
	}).With(raysys.CPU(0), raysys.Retries(2), raysys.RetryIf(func(err error) bool { return errors.Is(err, errShort) }))
	groupParent = tasks.DefineIn(table, "group parent", func(ctx context.Context, name string) (int, error) {
		return groupLeft.Go(ctx, name).Get(ctx)
	}).With(raysys.CPU(0))

	groupMakers = grains.DefineIn[groupMaker](table, "group maker")
	grainMakes  = grains.Action0(groupMakers, "makes", func(_ *groupMaker, ctx context.Context) error {
		_, err := makeGroup(ctx, groups.Named("of a grain"))
		return err
	})
	grainParent = grains.Action0(groupMakers, "parent", func(_ *groupMaker, ctx context.Context) error {
		_, err := groupLeft.Go(ctx, "").Get(ctx)
		return err
	})
)

// fourNodes joins workers of two CPUs.
func (b *bubble) fourNodes() {
	for _, name := range []raysys.NodeID{"a", "b", "c", "d"} {
		b.join(name, system.Worker, twoCPUs)
	}
}

// aDriver starts one that ends before the others.
func (b *bubble) aDriver(name raysys.NodeID) (n *system.Node, ctx context.Context, end func()) {
	n, end = b.start(system.Config{Name: name, Table: table, Namespace: "test", Cluster: over(b.net.Transport(name), system.ClusterConfig{Store: b.kv, Role: system.Driver})})
	<-time.After(time.Second) // of the bubble: the nodes have told their loads
	return n, n.Context(context.Background()), end
}

// heldCPUs is what bundles have of the workers.
func heldCPUs(ctx context.Context, t *testing.T, n *system.Node) (held float64) {
	t.Helper()
	<-time.After(time.Second) // of the bubble: removals are over
	st, err := n.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range st.Nodes {
		held += n.Resources.CPU - n.Free.CPU
	}
	return held
}

// TestGroupGoesWithJob: a group that a task makes on a worker goes with the driver that the task comes from, by tasks and grains
// between them too. Of the attempts of a task the last has a group; that of a grain stays with its node.
func TestGroupGoesWithJob(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context) error{
		"a task":           func(ctx context.Context) error { _, err := groupLeft.Go(ctx, "").Get(ctx); return err },
		"a task, by name":  func(ctx context.Context) error { _, err := groupLeft.Go(ctx, "left").Get(ctx); return err },
		"a task of a task": func(ctx context.Context) error { _, err := groupParent.Go(ctx, "").Get(ctx); return err },
		"a task of a grain": func(ctx context.Context) error {
			_, err := grainParent.Call(ctx, groupMakers.Get("x")).Get(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				t := b.t
				b.fourNodes()
				n, ctx, end := b.aDriver("driver")
				if err := run(ctx); !errors.Is(err, errShort) {
					t.Errorf("the task fails with %v", err)
				}
				if held := heldCPUs(ctx, t, n); held != 2 {
					t.Errorf("the groups of three attempts hold %v CPUs, want those of the last", held)
				}
				end()
				n, ctx, end = b.aDriver("next")
				defer end()
				if held := heldCPUs(ctx, t, n); held != 0 {
					t.Errorf("after the driver has left, the group of its task holds %v CPUs", held)
				}
			})
		})
	}
	t.Run("a grain", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			t := b.t
			b.fourNodes()
			_, ctx, end := b.aDriver("driver")
			if _, err := grainMakes.Call(ctx, groupMakers.Get("x")).Get(ctx); err != nil {
				t.Fatal(err)
			}
			end()
			n, ctx, end := b.aDriver("next")
			defer end()
			if _, err := groups.Lookup(ctx, "of a grain"); err != nil || heldCPUs(ctx, t, n) != 2 {
				t.Errorf("the group of a grain that is active, after its first caller has left: %v", err)
			}
		})
	})
}

// groupBegan takes each attempt of groupNight once it has its group; groupGo lets them go on.
var (
	groupBegan chan raysys.NodeID
	groupGo    chan struct{}
	groupNight = tasks.DefineIn(table, "group night", func(ctx context.Context, _ int) (raysys.NodeID, error) {
		g, err := makeGroup(ctx, groups.Named("night"))
		if err != nil {
			return "", err
		}
		groupBegan <- system.NodeOf(ctx).Name()
		select {
		case <-groupGo:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		return groupWhere.With(g.Bundle(0)).Go(ctx, 0).Get(ctx)
	}).With(raysys.CPU(0))
)

// TestGroupOfTaskWithoutDriver: a detached task whose driver has died makes the group of its next attempt with the node that it runs
// on, and that stays.
func TestGroupOfTaskWithoutDriver(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		b.fourNodes()
		groupBegan, groupGo = make(chan raysys.NodeID, 8), make(chan struct{})
		driver, ctx, end := b.aDriver("driver")
		groupNight.With(raysys.Detached("night task")).Go(ctx, 0)
		<-groupBegan
		if err := driver.Kill(context.Background(), errShort); err != nil {
			t.Fatal(err)
		}
		end()
		select {
		case <-groupBegan:
		case <-time.After(time.Minute): // of the bubble
			t.Fatal("the next attempt gets no group")
		}
		n, ctx, end := b.aDriver("next")
		defer end()
		<-time.After(10 * time.Second) // of the bubble: whatever is to go has gone
		close(groupGo)
		if _, err := raysys.Lookup[raysys.NodeID](ctx, "night task").Get(ctx); err != nil {
			t.Errorf("a detached task with a group, whose driver has died: %v", err)
		}
		if held := heldCPUs(ctx, t, n); held != 2 {
			t.Errorf("its groups hold %v CPUs, want those of its last attempt", held)
		}
	})
}
