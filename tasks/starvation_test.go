package tasks_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// A request for much is not starved by a stream of requests for little, whichever way those come: every task of the
// stream submits its successor before it ends, so that there is never a pause.
func TestLargeRequestIsNotStarved(t *testing.T) {
	for _, c := range []struct {
		name         string
		large, small []raysys.Option
		inPlace      bool
	}{
		{"CPU(4) by plain tasks", []raysys.Option{raysys.CPU(4)}, nil, false},
		{"CPU(4) by drivers that run tasks in place", []raysys.Option{raysys.CPU(4)}, nil, true},
		{"CPU(4) by CPU(2)", []raysys.Option{raysys.CPU(4)}, []raysys.Option{raysys.CPU(2)}, false},
		{"GPU(2) by GPU(1)", []raysys.Option{raysys.GPU(2)}, []raysys.Option{raysys.GPU(1)}, false},
		{"licence", []raysys.Option{raysys.Resource("licence", 3)}, []raysys.Option{raysys.Resource("licence", 1), raysys.CPU(0.1)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := raysys.NewTable()
			var step tasks.Task[int, int]
			ran := make(chan struct{}, 1)
			step = tasks.DefineIn(table, "step", func(ctx context.Context, n int) (int, error) {
				select {
				case ran <- struct{}{}:
				default:
				}
				if ctx.Err() == nil && !c.inPlace {
					step.Go(ctx, n+1)
				}
				return 0, ctx.Err()
			})
			if c.small != nil {
				step = step.With(c.small...)
			}
			done := tasks.Define0In(table, "large", func(context.Context) (int, error) { return 1, nil })
			_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: rich})
			stream, stop := context.WithCancel(ctx)
			ended := make(chan struct{})
			for i := range 6 {
				if !c.inPlace {
					step.Go(stream, i)
					continue
				}
				go func() {
					defer func() { ended <- struct{}{} }()
					own := raysys.Branch(ctx, i)
					for stream.Err() == nil {
						step.Go(own, i).Get(own)
					}
				}()
			}
			nodetest.Arrive(t, ran, "the stream runs")
			nodetest.Want(t, ctx, done.With(c.large...).Go(ctx), 1)
			stop()
			if c.inPlace {
				for range 6 {
					<-ended
				}
			}
		})
	}
}

// CPUs that were kept for a large request are used again once it is cancelled.
func TestCancelledLargeRequest(t *testing.T) {
	for _, how := range []string{"ref", "context"} {
		table := raysys.NewTable()
		hold, began, open := blockers(table)
		short := tasks.Define0In(table, "short", func(context.Context) (int, error) { return 1, nil })
		_, ctx := nodetest.Node(t, table, 2)
		long := hold.Go(ctx)
		nodetest.Arrive(t, began, "the long task runs")
		sub, cancel := context.WithCancel(ctx)
		defer cancel()
		large := short.With(raysys.CPU(2)).Go(sub)
		behind := []raysys.Ref[int]{short.Go(ctx), short.Go(ctx)}
		if how == "ref" {
			large.Cancel()
		} else {
			cancel()
			nodetest.Eventually(t, "the large request is cancelled", func() bool { return raysys.PhaseOf(large) == raysys.PhaseCancelled })
		}
		for _, r := range behind {
			nodetest.Want(t, ctx, r, 1)
		}
		close(open)
		nodetest.Want(t, ctx, long, 0)
	}
}
