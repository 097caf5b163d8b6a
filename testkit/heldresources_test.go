package testkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// TestCancelledTaskHolds: a task that was cancelled, or whose deadline has passed, has its device until its code has returned; and a task
// that waits for the device waits until its own deadline.
func TestCancelledTaskHolds(t *testing.T) {
	for name, end := range map[string]func(raysys.Ref[int]){"cancelled": func(r raysys.Ref[int]) { r.Cancel() }, "late": nil} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			began := map[string]time.Time{} // one device: one at a time
			hold := tasks.DefineIn(table, "hold", func(_ context.Context, who string) (int, error) {
				began[who] = time.Now()
				<-time.After(10 * time.Second) // it does not look at its context
				return 0, nil
			}).With(raysys.GPU(1))
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx := k.Context()
				k.Cluster().Ready()
				first, want := hold, raysys.ErrCancelled
				if end == nil {
					first, want = hold.With(raysys.Deadline(2*time.Second)), raysys.ErrDeadline
				}
				r := first.Go(ctx, "first")
				k.Advance(time.Second)
				late, next := hold.With(raysys.Deadline(4*time.Second)).Go(ctx, "late"), hold.Go(ctx, "next")
				submitted := time.Now()
				if end != nil {
					end(r)
				}
				if _, err := r.Get(ctx); !errors.Is(err, want) {
					t.Errorf("the first: %v, want %v", err, want)
				}
				if _, err := late.Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
					t.Errorf("one that waits until its deadline: %v", err)
				}
				if d := time.Since(submitted); d < 4*time.Second || d > 6*time.Second { // the device is free after 9 s
					t.Errorf("a deadline of 4 s ended the wait after %v", d)
				}
				if _, err := next.Get(ctx); err != nil {
					t.Fatal(err)
				}
				if _, ran := began["late"]; ran {
					t.Error("the task ran whose deadline had passed before")
				}
				if d := began["next"].Sub(began["first"]); d < 10*time.Second || d > 10*time.Second+waitLimit() {
					t.Errorf("the device had another task %v after the first had begun, which took 10 s", d)
				}
			}, testkit.Table(table), testkit.Nodes(1), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Resources.CPU, cfg.DeviceSource = 4, newSource(i, 1)
				}
			}))
		})
	}
}
