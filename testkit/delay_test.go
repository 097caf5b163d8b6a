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

// TestSchedulingDelay: with an added delay of 10 ms each task begins 10 ms after it was submitted, or after the last of its
// arguments was there, on this node and on another; those that are submitted together begin together, and one that is cancelled
// meanwhile does not begin.
func TestSchedulingDelay(t *testing.T) {
	const delay = 10 * time.Millisecond
	for name, nodes := range map[string]int{"one node": 0, "elsewhere": 1} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			next := tasks.DefineIn(table, "next", func(_ context.Context, n int) (int, error) { return n + 1, nil })
			opts := []testkit.Option{testkit.Config(system.Config{SchedulingDelay: delay}), testkit.Table(table), testkit.CPU(2), testkit.Loose()}
			if nodes > 0 {
				opts = append(opts, testkit.Nodes(nodes))
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx := k.Context()
				if nodes > 0 {
					k.Cluster().Ready()
				}
				for what, f := range map[string]struct {
					want time.Duration
					run  func() []raysys.Ref[int]
				}{
					"one":     {delay, func() []raysys.Ref[int] { return []raysys.Ref[int]{next.Go(ctx, 0)} }},
					"many":    {delay, func() []raysys.Ref[int] { return next.Map(ctx, make([]int, 100)) }},
					"a shape": {delay, func() []raysys.Ref[int] { return []raysys.Ref[int]{next.With(raysys.Memory(1)).Go(ctx, 0)} }},
					"a chain": {3 * delay, func() []raysys.Ref[int] { return []raysys.Ref[int]{next.On(ctx, next.On(ctx, next.Go(ctx, 0)))} }},
				} {
					began := time.Now()
					for _, ref := range f.run() {
						if _, err := ref.Get(ctx); err != nil {
							t.Error(what, err)
						}
					}
					if took := time.Since(began); took < f.want || took >= f.want+delay/2 {
						t.Errorf("%s: %v, want %v", what, took, f.want)
					}
				}
				few, cancel := context.WithCancel(ctx)
				gone := next.Go(few, 0)
				cancel()
				if _, err := gone.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
					t.Errorf("a task that was cancelled while it waited for the added delay: %v", err)
				}
				k.Advance(2 * delay)
			}, opts...)
		})
	}
}
