package taskengine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// TestExplainWaiting: on a node alone each task that waits is found by how its id begins, with those before it; and nothing is
// kept of tasks that have ended, also of those that were cancelled while they were held.
func TestExplainWaiting(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	fails := tasks.DefineIn(table, "fails", func(context.Context, int) (int, error) { return 0, errBoom })
	fails = fails.With(raysys.RetryIf(func(error) bool { return true }), raysys.Retries(1), raysys.Backoff(time.Hour, time.Hour))
	n, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 1}})
	e := engineOf(n)
	pauses := fails.Go(ctx, 0)
	nodetest.Eventually(t, "the task pauses before its next attempt", func() bool { return e.Held() == 1 })
	long := hold.Go(ctx)
	nodetest.Arrive(t, began, "the CPU is taken")
	mapped := one.Map(ctx, []int{1, 2, 3, 4, 5, 6})
	queued := one.Go(ctx, 7)
	two := hold.With(raysys.Resource("licence", 1))
	if _, err := two.Go(ctx).Get(ctx); err == nil {
		t.Error("a task that asks for more than the node has")
	}
	half := one.With(raysys.CPU(0.5))
	older, shaped := half.Go(ctx, 8), half.Go(ctx, 9)
	after := one.On(ctx, queued)
	cancelled := one.On(ctx, queued)
	cancelled.Cancel()
	if held := e.Held(); held != 2 {
		t.Errorf("%d tasks are held, want one that pauses and one that waits for its input", held)
	}
	for _, c := range []struct {
		of     raysys.Ref[int]
		stage  string
		before int
		says   string
	}{
		{pauses, core.StagePause, 0, "the pause before attempt 2"},
		{mapped[0], core.StageQueue, 0, "a CPU: it is in the queue of this node"},
		{mapped[5], core.StageQueue, 5, "one " + mapped[0].ID().String()},
		{queued, core.StageQueue, 6, "one " + mapped[3].ID().String()},
		{older, core.StageLine, 0, "CPU: 0.5 asked for, 0 of 1 free"},
		{shaped, core.StageLine, 1, "one " + older.ID().String()},
		{after, core.StageInputs, 0, "1 of its inputs"},
		{after, core.StageInputs, 0, "one " + queued.ID().String()},
	} {
		p, _ := core.PrefixOf(c.of.ID().String()[:20])
		list := e.ExplainWaiting(p, 10)
		if len(list) != 1 || list[0].ID != core.TaskID(c.of.ID()) || list[0].Stage != c.stage || list[0].Before != c.before ||
			!strings.Contains(raysys.Scheduling{Waits: []raysys.Waiting{list[0].Waiting}}.String(), c.says) {
			t.Errorf("%s, want %s behind %d: %q: %+v", c.of, c.stage, c.before, c.says, list)
		}
	}
	for _, id := range []raysys.TaskID{long.ID(), cancelled.ID()} {
		p, _ := core.PrefixOf(fmt.Sprint(id))
		if list := e.ExplainWaiting(p, 10); list != nil {
			t.Errorf("a task that waits nowhere: %+v", list)
		}
	}
	pauses.Cancel()
	close(open)
	for _, r := range append(mapped, queued, older, shaped, after, long) {
		if _, err := r.Get(ctx); err != nil {
			t.Error(err)
		}
	}
	if held := e.Held(); held != 0 {
		t.Errorf("%d tasks are held when all have ended", held)
	}
}
