package testkit_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// desk keeps a reference to a task.
type desk struct{ task raysys.Handle[int] }

// TestSeedRepeatsAfterDeath: a driver with a fixed seed that died and runs again makes the same ids. What is stored under them belongs to
// its last run: the reply to a durable call, and the record of a task that others hold.
func TestSeedRepeatsAfterDeath(t *testing.T) {
	table := raysys.NewTable()
	purses := grains.DefineIn[purse](table, "purse", grains.Durable())
	add := grains.Method(purses, "add", func(g *purse, _ context.Context, n int) (int, error) {
		g.n.Value += n
		return g.n.Value, nil
	})
	desks := grains.DefineIn[desk](table, "desk")
	keep := grains.Method(desks, "keep", func(d *desk, _ context.Context, h raysys.Handle[int]) (int, error) {
		d.task = h
		return 0, nil
	})
	value := grains.Method0(desks, "value", func(d *desk, ctx context.Context) (int, error) { return d.task.Ref().Get(ctx) })
	var open atomic.Pointer[chan struct{}]
	echo := tasks.DefineIn(table, "echo", func(ctx context.Context, n int) (int, error) {
		select {
		case <-*open.Load():
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		gate := make(chan struct{})
		open.Store(&gate)
		ids := map[int][2]raysys.TaskID{} // of the run that gives this argument
		run := func(n int) grains.Grain[desk] {
			t.Helper()
			ctx := c.Node(3).Context(k.Context())
			task, d := echo.With(raysys.OnNode("n1")).Go(ctx, n), desks.Get(string(rune('0'+n)))
			if _, err := keep.With(raysys.OnNode("n2")).Call(ctx, d, task.Handle()).Get(ctx); err != nil {
				t.Fatal(err)
			}
			call := add.With(raysys.OnNode("n2")).Call(ctx, purses.Get("x"), 5)
			if sum, err := call.Get(ctx); sum != 5*n || err != nil {
				t.Errorf("call %d: %d, %v; want %d", n, sum, err, 5*n)
			}
			ids[n] = [2]raysys.TaskID{call.ID(), task.ID()}
			return d
		}
		first := run(1)
		c.Kill(3)
		c.Restart(3)
		c.Ready()
		second := run(2)
		if ids[1] != ids[2] {
			t.Errorf("the runs of one seed have ids %v and %v", ids[1], ids[2])
		}
		close(gate)
		for want, d := range map[int]grains.Grain[desk]{1: first, 2: second} {
			if n, err := value.Call(k.Context(), d).Get(k.Context()); n != want || err != nil {
				t.Errorf("the task of run %d gives %d, %v", want, n, err)
			}
		}
	}, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i == 3 {
			cfg.Seed = 7
		}
	}))
}
