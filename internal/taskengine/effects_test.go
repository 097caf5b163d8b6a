package taskengine_test

import (
	"cmp"
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// till is a grain that counts.
type till struct{ n int }

func (c *till) Add(_ context.Context, n int) (int, error) {
	c.n += n
	return c.n, nil
}

// TestRebuildEffects: a task is not run again that called a grain's method which is neither read-only nor idempotent, by
// itself, on a branch, in a task of its own, or in one that failed.
func TestRebuildEffects(t *testing.T) {
	table := raysys.NewTable()
	tills := grains.DefineIn[till](table, "till")
	add := grains.Method(tills, "add", (*till).Add)
	at := tills.Get("1")
	runs := 0
	var child tasks.Task[int, int]
	child = tasks.DefineIn(table, "child", func(ctx context.Context, deep int) (int, error) {
		if deep > 0 {
			return child.Go(ctx, deep-1).Get(ctx)
		}
		_, err := add.Call(ctx, at, 1).Get(ctx)
		return 1, err
	})
	failing := tasks.DefineIn(table, "failing", func(ctx context.Context, _ int) (int, error) {
		_, err := add.Call(ctx, at, 1).Get(ctx)
		return 0, cmp.Or(err, errBoom)
	})
	what := map[string]struct {
		do      func(ctx context.Context) error
		effects bool
	}{
		"nothing":    {func(context.Context) error { return nil }, false},
		"a call":     {func(ctx context.Context) error { _, err := add.Call(ctx, at, 1).Get(ctx); return err }, true},
		"read-only":  {func(ctx context.Context) error { _, err := add.ReadOnly().Call(ctx, at, 1).Get(ctx); return err }, false},
		"idempotent": {func(ctx context.Context) error { _, err := add.Idempotent().Call(ctx, at, 1).Get(ctx); return err }, false},
		"retried": {func(ctx context.Context) error {
			_, err := add.Idempotent().With(raysys.Retries(2)).Call(ctx, at, 1).Get(ctx)
			return err
		}, false},
		"a tell": {func(ctx context.Context) error { return add.Tell(ctx, at, 1) }, true},
		"branch": {func(ctx context.Context) error {
			_, err := add.Call(raysys.Branch(ctx, 1), at, 1).Get(ctx)
			return err
		}, true},
		"a child":      {func(ctx context.Context) error { _, err := child.Go(ctx, 0).Get(ctx); return err }, true},
		"a grandchild": {func(ctx context.Context) error { _, err := child.Go(ctx, 1).Get(ctx); return err }, true},
		"a child that fails": {func(ctx context.Context) error {
			if _, err := failing.Go(ctx, 0).Get(ctx); err == nil {
				return errOther
			}
			return nil
		}, true},
	}
	task := tasks.DefineIn(table, "task", func(ctx context.Context, name string) (bulky, error) {
		runs++
		return newBulky(runs), what[name].do(ctx)
	})
	_, ctx := nodetest.Node(t, table, 2)
	turn, _, _ := core.TurnOf(ctx)
	turn.Job().Objects = careless{}
	for name, w := range what {
		runs = 0
		r := task.Go(ctx, name)
		if _, err := nodetest.Get(t, ctx, r); err != nil {
			t.Fatal(name, err)
		}
		loseObject(t, r)
		_, err := nodetest.Get(t, ctx, r)
		if w.effects {
			nodetest.Fails(t, ctx, r, raysys.ErrObjectLost)
		} else if err != nil {
			t.Errorf("%s: %v: a task without effects is run again", name, err)
		}
		want := 2
		if w.effects {
			want = 1
		}
		if runs != want {
			t.Errorf("%s: the task ran %d times, want %d: what must not be done twice is not done again", name, runs, want)
		}
	}
}
