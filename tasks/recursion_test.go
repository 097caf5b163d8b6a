package tasks_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// waits are the ways in which a task can wait for its children.
var waits = map[string]func(ctx context.Context, refs []raysys.Ref[int]) (sum int, err error){
	"Get": func(ctx context.Context, refs []raysys.Ref[int]) (sum int, err error) {
		for _, r := range refs {
			v, err := r.Get(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	},
	"Get on a derived context": func(ctx context.Context, refs []raysys.Ref[int]) (sum int, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for _, o := range raysys.GetAll(ctx, refs) {
			if o.Err != nil {
				return 0, o.Err
			}
			sum += o.Value
		}
		return sum, nil
	},
	"Wait": func(ctx context.Context, refs []raysys.Ref[int]) (sum int, err error) {
		ready, _, err := raysys.Wait(ctx, refs, len(refs))
		if err != nil {
			return 0, err
		}
		for _, r := range ready {
			v, err := r.Get(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	},
	"AsCompleted": func(ctx context.Context, refs []raysys.Ref[int]) (sum int, err error) {
		for _, r := range raysys.AsCompleted(ctx, refs) {
			v, err := r.Get(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	},
}

// Nested tasks never deadlock, however few CPUs there are, whatever each asks for and whichever way it waits.
func TestNestedTasksNeverDeadlock(t *testing.T) {
	for _, cpus := range []float64{1, 2} {
		for how, wait := range waits {
			for _, each := range []float64{1, 0, 0.5} {
				t.Run(fmt.Sprintf("%s, %v of %v CPUs", how, each, cpus), func(t *testing.T) {
					table := raysys.NewTable()
					var fib tasks.Task[int, int]
					fib = tasks.DefineIn(table, "fib", func(ctx context.Context, n int) (int, error) {
						if n < 2 {
							return n, nil
						}
						return wait(ctx, []raysys.Ref[int]{fib.Go(ctx, n-1), fib.Go(ctx, n-2)})
					})
					size, result := 20, 6765
					if how != "Get" || each != 1 {
						size, result = 12, 144
					}
					if each != 1 {
						fib = fib.With(raysys.CPU(each))
					}
					n, ctx := nodetest.Node(t, table, cpus)
					nodetest.Want(t, ctx, fib.Go(ctx, size), result)
					if v, err := fib.Go(ctx, size).Get(ctx); v != result || err != nil {
						t.Errorf("Get that may run tasks in place: %d, %v", v, err)
					}
					nodetest.Eventually(t, "all CPUs are free again", func() bool { return engineOf(n).FreeCPU() == cpus })
				})
			}
		}
	}
}

// A chain of nested Gets may be much deeper than there are CPUs, or tasks that fit on one stack.
func TestDeepRecursion(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
		opts  []raysys.Option
	}{{"plain", 10_000, nil}, {"no CPU", 10_100, []raysys.Option{raysys.CPU(0)}}, {"deadline", 2_000, []raysys.Option{raysys.Deadline(nodetest.Patience)}}} {
		t.Run(c.name, func(t *testing.T) {
			table := raysys.NewTable()
			var down tasks.Task[int, int]
			down = tasks.DefineIn(table, "down", func(ctx context.Context, n int) (int, error) {
				if n == 0 {
					return 0, nil
				}
				v, err := down.Go(ctx, n-1).Get(ctx)
				return v + 1, err
			})
			if c.opts != nil {
				down = down.With(c.opts...)
			}
			_, ctx := nodetest.Node(t, table, 1)
			depth := c.depth
			if raceDetector {
				depth /= 8 // each level looks at all above it
			}
			nodetest.Want(t, ctx, down.Go(ctx, depth), depth)
		})
	}
}

// The wait of a task for a wide net of tasks that need each other costs time in their number, not in the number of
// ways through the net.
func TestWaitForDiamonds(t *testing.T) {
	table := raysys.NewTable()
	open := make(chan struct{})
	waits := make(chan struct{}, 1)
	source := tasks.Define0In(table, "source", func(context.Context) (int, error) { <-open; return 1, nil })
	larger := tasks.Define2In(table, "larger", func(_ context.Context, a, b int) (int, error) { return max(a, b), nil })
	root := tasks.Define0In(table, "root", func(ctx context.Context) (int, error) {
		r := source.Go(ctx)
		for range 60 {
			r = larger.On(ctx, r, r)
		}
		waits <- struct{}{}
		return r.Get(ctx)
	})
	_, ctx := nodetest.Node(t, table, 2)
	r := root.Go(ctx)
	nodetest.Arrive(t, waits, "the root task has built its net")
	close(open)
	nodetest.Want(t, ctx, r, 1)
}

// Neither does the outcome of a long chain, good or bad, run up a stack.
func TestLongChains(t *testing.T) {
	length := 400_000
	if raceDetector {
		length /= 20
	}
	table := raysys.NewTable()
	open := make(chan struct{})
	source := tasks.DefineIn(table, "source", func(_ context.Context, fail bool) (int, error) {
		<-open
		if fail {
			return 0, errBoom
		}
		return 1, nil
	})
	next := tasks.DefineIn(table, "next", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	_, ctx := nodetest.Node(t, table, 2)
	good, bad := source.Go(ctx, false), source.Go(ctx, true)
	for range length {
		good, bad = next.On(ctx, good), next.On(ctx, bad)
	}
	close(open)
	nodetest.Want(t, ctx, good, length+1)
	if _, err := nodetest.Get(t, ctx, bad); err == nil {
		t.Error("the end of a chain that began with a failure is good")
	}
}
