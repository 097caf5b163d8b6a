package tasks

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/taskengine"
)

// Reduce submits t for pairs of neighbours, then for pairs of their results, until one is left, and returns that one's future at once. The
// values keep their order, so t must be associative and need not be commutative: of a, b, c and d the result is t(t(a, b), t(c, d)). The tree
// has ceil(log2(len(refs))) levels; each pair begins when its two values are there, on a node where they are. No value comes to the caller.
//
// Reduce returns the only one of refs itself. No refs at all is ErrBadOption, through the future. refs are read before Reduce returns.
func Reduce[T any](ctx context.Context, t Task2[T, T, T], refs []raysys.Ref[T]) raysys.Ref[T] {
	return raysys.Ref[T]{Link: reduce(ctx, t.k, core.Links[T](refs), core.TypeOf[T]())}
}

func reduce(ctx context.Context, t taskengine.Task, level []core.Link, of *core.ValueType) core.Link {
	if len(level) == 0 {
		return core.LinkTo(core.FailedOf(of, fmt.Errorf("tasks.Reduce: %w: no references: a reduction of nothing has no value, so give one of its neutral value", raysys.ErrBadOption)))
	}
	for len(level) > 1 {
		next := make([]core.Link, 0, (len(level)+1)/2)
		for ; len(level) > 1; level = level[2:] {
			next = append(next, t.On(ctx, level[0], level[1]))
		}
		level = append(next, level...)
	}
	return level[0]
}
