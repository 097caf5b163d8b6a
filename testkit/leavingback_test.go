package testkit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// TestLeavingTakenBack: a task that saves what it has while the drain of its node is cancelled is made again, too: it was
// told to give way.
func TestLeavingTakenBack(t *testing.T) {
	table := raysys.NewTable()
	saves := tasks.Define0In(table, "saves", func(ctx context.Context) (int, error) {
		if n := raysys.Attempt(ctx); n > 1 {
			return n, nil
		}
		<-raysys.Leaving(ctx)
		<-time.After(5 * time.Second)
		if _, leaving := raysys.LeavesIn(ctx); leaving {
			return 0, errors.New("the drain was not cancelled")
		}
		return 0, raysys.ErrLeaving
	})
	where := tasks.Define0In(table, "where", func(ctx context.Context) (string, error) {
		<-time.After(time.Second)
		return at(ctx), nil
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c, ctx := k.T(), k.Cluster(), k.Context()
		c.Ready()
		f := saves.With(raysys.OnNode("n1")).Go(ctx)
		k.Advance(time.Second)
		if _, err := c.Node(2).DrainNode(ctx, "n1"); err != nil {
			t.Fatal(err)
		}
		k.Advance(2 * time.Second)
		if err := c.Node(2).CancelDrain(ctx, "n1"); err != nil {
			t.Fatal(err)
		}
		if n, err := f.Get(ctx); err != nil || n != 2 {
			t.Error(n, err)
		}
		k.Advance(10 * time.Second)
		var all []raysys.Ref[string]
		for range 4 {
			all = append(all, where.Go(ctx))
		}
		if on, err := raysys.GetAll(ctx, all).Values(); err != nil || !slices.Contains(on, "n1") {
			t.Errorf("tasks run on %v, and n1 stays: %v", on, err)
		}
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i == 0 {
			cfg.Cluster.Role, cfg.Resources = system.Driver, raysys.Resources{}
		}
	}))
}
