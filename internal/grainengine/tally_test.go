package grainengine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/system"
)

// TestFunctions: each way in which a call ends is counted once, with its method; what runs and what
// waits in a mailbox is counted, too.
func TestFunctions(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[cell](table, "cell")
	began, open := make(chan bool, 100), make(chan bool)
	add := grains.Method(kind, "add", func(c *cell, _ context.Context, d int) (int, error) {
		if c.n += d; d < 0 {
			return 0, fmt.Errorf("add %d: %w", d, errNote)
		} else if d == 0 {
			panic("zero")
		}
		return c.n, nil
	})
	hold := grains.Action0(kind, "hold", func(_ *cell, ctx context.Context) error {
		began <- true
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	asks := grains.Action(kind, "asks", func(_ *cell, ctx context.Context, other string) error {
		_, err := hold.Call(ctx, kind.Get(other)).Get(ctx)
		return err
	})
	later := grains.LaterMethod(kind, "later", func(_ *cell, _ context.Context, d int, l *grains.Later[int]) error {
		if d == 0 {
			return nil // it is kept
		}
		return l.Settle(d)
	})
	n, ctx := nodetest.Start(t, system.Config{Table: table})
	e := engineOf(n)
	row := func(name string) tally.Row {
		for _, r := range grainengine.Functions(e) {
			if r.Name == name {
				return r
			}
		}
		return tally.Row{}
	}
	counted := func(name string, want tally.Counts) {
		t.Helper()
		nodetest.Eventually(t, fmt.Sprintf("%s: %v are counted", name, want), func() bool { return row(name).Outcomes == want })
	}
	for i := range 40 {
		wants(t, ctx, add.Call(ctx, kind.Get(fmt.Sprint(i%3)), 1), i/3+1)
	}
	nodetest.Fails(t, ctx, add.Call(ctx, kind.Get("x"), -1), errNote)
	nodetest.Fails(t, ctx, add.Call(ctx, kind.Get("x"), 0), raysys.ErrPanic)
	counted("cell.add", tally.Counts{tally.OK: 40, tally.Error: 1, tally.Panic: 1})
	if r := row("cell.add"); r.Times.Count() == 0 || r.Kind != tally.CallKind {
		t.Errorf("add: %+v", r)
	}
	// A turn ends a moment after its call has settled.
	nodetest.Eventually(t, "none runs, none waits", func() bool { r := row("cell.add"); return r.Running+r.Waiting == 0 })
	wants(t, ctx, later.Call(ctx, kind.Get("x"), 5), 5)
	nodetest.Fails(t, ctx, later.With(raysys.Deadline(time.Millisecond)).Call(ctx, kind.Get("x"), 0), raysys.ErrDeadline)
	nodetest.Eventually(t, "the call that was kept is counted as ended, in its mailbox or later", func() bool {
		return row("cell.later").Outcomes == tally.Counts{tally.OK: 1, tally.Cancelled: 1}
	})

	outer := asks.Call(ctx, kind.Get("asks"), "held")
	<-began
	queued := add.Call(ctx, kind.Get("held"), 1)
	gone := add.Call(ctx, kind.Get("held"), 1)
	gone.Cancel()
	counted("cell.add", tally.Counts{tally.OK: 40, tally.Error: 1, tally.Panic: 1, tally.Cancelled: 1})
	if r := row("cell.add"); r.Waiting != 1 {
		t.Errorf("add, of which one waits: %+v", r)
	}
	if r := row("cell.hold"); r.Running != 1 || row("cell.asks").Running != 1 {
		t.Errorf("hold, of which one runs: %+v", r)
	}
	close(open)
	if _, err := outer.Get(ctx); err != nil {
		t.Error(err)
	}
	wants(t, ctx, queued, 1)
	counted("cell.hold", tally.Counts{tally.OK: 1})
}
