package groups_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// TestFurtherAttempt: a further attempt of a task makes a group of its own, also on the node of the earlier one, whose group is removed: the
// node has no room for both.
func TestFurtherAttempt(t *testing.T) {
	tb := raysys.NewTable()
	var made []groups.Group
	makes := tasks.DefineIn(tb, "makes", func(ctx context.Context, _ int) (int, error) {
		g, err := groups.Create(ctx, placement.Pack, cpus(3))
		if err == nil {
			err = g.Wait(ctx)
		}
		if err != nil {
			return 0, err
		}
		if made = append(made, g); len(made) == 1 {
			return 0, errAgain
		}
		return len(made), nil
	}).With(raysys.Retries(2), raysys.RetryIf(func(err error) bool { return errors.Is(err, errAgain) }))
	_, ctx := start(t, tb)
	if n, err := makes.Go(ctx, 0).Get(ctx); n != 2 || err != nil || made[0] == made[1] {
		t.Errorf("of %d attempts, whose groups are one: %v; error %v", n, made[0] == made[len(made)-1], err)
	}
}

var errAgain = errors.New("again")

// TestAttemptAfterDeath: the node of a task that has made a group dies while the group is at work, and the next attempt makes another, under
// the same name too: it waits for the end of the first, where work is slow to return.
func TestAttemptAfterDeath(t *testing.T) {
	for name, opts := range map[string][]groups.Option{"without a name": nil, "named": {groups.Named("training")}} {
		t.Run(name, func(t *testing.T) {
			tb := raysys.NewTable()
			slow := tasks.DefineIn(tb, "slow", func(_ context.Context, x int) (int, error) {
				<-time.After(3 * time.Second) // it does not look at its context
				return x, nil
			})
			makes := tasks.DefineIn(tb, "makes", func(ctx context.Context, x int) (int, error) {
				g, err := groups.Create(ctx, placement.StrictSpread, cpus(1, 1), opts...)
				if err != nil {
					return 0, err
				}
				a, b := slow.With(g.Bundle(0)).Go(ctx, x), slow.With(g.Bundle(1)).Go(ctx, x)
				for _, r := range []raysys.Ref[int]{a, b} {
					if _, err := r.Get(ctx); err != nil {
						return 0, err
					}
				}
				return x, g.Remove(ctx)
			})
			testkit.Virtual(t, func(k *testkit.Kit) {
				c, ctx := k.Cluster(), k.Context()
				c.Ready()
				r := makes.With(raysys.Prefer(raysys.OnNode(c.Name(1)))).Go(ctx, 7)
				k.Advance(time.Second)
				c.Kill(1)
				if got, err := r.Get(ctx); got != 7 || err != nil {
					t.Errorf("after the death of its node: %v, %v", got, err)
				}
			}, testkit.Table(tb), testkit.Nodes(4), testkit.CPU(4))
		})
	}
}
