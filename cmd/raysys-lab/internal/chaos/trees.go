package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/tasks"
)

// span is the sum of the squares from Lo to below Hi, computed by a tree of tasks.
type span struct {
	Lo, Hi int
	Ways   int           // children of an inner task
	Rest   time.Duration // of a leaf
	Grains bool          // leaves ask a grain
	Once   bool          // no attempt follows the first
}

// want is the closed form.
func (s span) want() int {
	below := func(n int) int { return (n - 1) * n * (2*n - 1) / 6 }
	return below(s.Hi) - below(s.Lo)
}

// squarer is a stateless worker, and sloth a plain grain, that square.
type (
	squarer struct{}
	sloth   struct{ calls int }
)

func (*squarer) Square(_ context.Context, n int) (int, error) { return n * n, nil }

func (s *sloth) Square(ctx context.Context, n int) (int, error) {
	s.calls++
	return n * n, nap(ctx, time.Duration(n%5)*20*time.Millisecond)
}

func nap(ctx context.Context, d time.Duration) error {
	if d == 0 || backoff.Wait(ctx, d) {
		return nil
	}
	return context.Cause(ctx)
}

// trees are tasks that fan out, whose leaves rest or ask grains, and whose results have a closed form: each future settles
// once, with the right value or with an error that a fault justifies.
func trees(tb *raysys.Table) workload {
	const name = "trees"
	squarers := grains.DefineIn[squarer](tb, "chaos.squarer", grains.StatelessWorker(0))
	sloths := grains.DefineIn[sloth](tb, "chaos.sloth")
	ask := grains.Method(squarers, "square", (*squarer).Square).Idempotent()
	askSloth := grains.Method(sloths, "square", (*sloth).Square).Idempotent()
	leaf := tasks.DefineIn(tb, "chaos.leaf", func(ctx context.Context, s span) (int, error) {
		sum := 0
		for n := s.Lo; n < s.Hi; n++ {
			v, err := n*n, error(nil)
			switch {
			case s.Grains && n%2 == 0:
				v, err = ask.Call(ctx, squarers.Get("any"), n).Get(ctx)
			case s.Grains:
				v, err = askSloth.Call(ctx, sloths.Get(fmt.Sprint(n%7)), n).Get(ctx)
			}
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nap(ctx, s.Rest)
	})
	var tree tasks.Task[span, int]
	tree = tasks.DefineIn(tb, "chaos.tree", func(ctx context.Context, s span) (int, error) {
		size := s.Hi - s.Lo
		if size <= 3 {
			return leaf.Go(ctx, s).Get(ctx)
		}
		child := tree
		if s.Once {
			child = tree.With(raysys.Retries(0))
		}
		var refs []raysys.Ref[int]
		for i := range s.Ways {
			part := s
			part.Lo, part.Hi = s.Lo+size*i/s.Ways, s.Lo+size*(i+1)/s.Ways
			refs = append(refs, child.Go(ctx, part))
		}
		values, err := raysys.GetAll(ctx, refs).Values()
		sum := 0
		for _, v := range values {
			sum += v
		}
		return sum, err
	})
	both := tasks.Define2In(tb, "chaos.both", func(_ context.Context, a, b int) (int, error) { return a + b, nil })
	return workload{
		name: name,
		start: func(r *round) {
			r.clients(name, 2*(r.on.Size()+1), 2*thinkTime, func(c *client, ctx context.Context) {
				lo := c.rng.IntN(1000)
				s := span{
					Lo: lo, Hi: lo + 1 + c.rng.IntN(60), Ways: 2 + c.rng.IntN(3), Rest: time.Duration(c.rng.IntN(300)) * time.Millisecond,
					Grains: c.rng.IntN(3) == 0, Once: c.rng.IntN(3) == 0,
				}
				t := tree
				if s.Once {
					t = t.With(raysys.Retries(0))
				}
				if c.rng.IntN(4) == 0 {
					t = t.With(raysys.Detached())
				}
				a := c.begin(ctx, "the tree %+v", s)
				first := t.Go(ctx, s)
				sum, want := first, s.want()
				if c.rng.IntN(3) == 0 { // results as arguments
					sum, want = both.On(ctx, first, t.Go(ctx, s)), 2*s.want()
				}
				v, err := sum.Get(ctx)
				a.end(err)
				if err == nil && v != want {
					c.violate(name, "a task's result is its own", "%s is %d, want %d", a.what, v, want)
				}
				again, errAgain := sum.Get(ctx)
				if again != v || (err == nil) != (errAgain == nil) {
					c.violate(name, "a future settles once", "%s was %d (%v), and then %d (%v)", a.what, v, err, again, errAgain)
				}
			})
		},
	}
}
