package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// waitFor is the argument of a task that waits for another by a reference in it.
type waitFor struct{ Task raysys.Handle[int] }

// TestWaitingTasksMakeRoom: tasks that wait for the results of others take no room from these on any node, whoever submitted them: the
// ones that they wait for may be those that have no node yet.
func TestWaitingTasksMakeRoom(t *testing.T) {
	table := raysys.NewTable()
	var gate chan struct{}
	hold := tasks.DefineIn(table, "hold", func(ctx context.Context, n int) (int, error) {
		select {
		case <-gate:
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	give := tasks.DefineIn(table, "give", func(_ context.Context, n int) (int, error) { return n, nil })
	wait := tasks.DefineIn(table, "wait", func(ctx context.Context, w waitFor) (int, error) { return w.Task.Ref().Get(ctx) })
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		gate = make(chan struct{})
		k.Cluster().Ready()
		var refs []raysys.Ref[int]
		for range 4 { // all CPUs, for long enough to be remembered as the mean
			refs = append(refs, hold.Go(ctx, 1))
		}
		k.Advance(time.Second)
		last := give.With(raysys.Priority(raysys.Low)).Go(ctx, 1)
		for range 20 {
			refs = append(refs, wait.With(raysys.Priority(raysys.High)).Go(ctx, waitFor{last.Handle()}))
		}
		close(gate)
		got := make(chan error, 1)
		go func() {
			_, err := raysys.GetAll(ctx, refs).Values()
			got <- err
		}()
		k.Advance(5 * time.Second)
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		default:
			s, err := raysys.Explain(ctx, last)
			t.Fatalf("the task for which all others wait does not run: %v, %v", s, err)
		}
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Resources.CPU = 2
		}
	}))
}
