package grains

import (
	"context"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

// Unload has a grain leave memory, whichever node it is on: from outside it is what Deactivate is in a turn. The calls that wait in its
// mailbox run first. When Unload returns nil OnDeactivate has run and the grain has no place any more, so the next call places it anew: one
// With(raysys.OnNode(n)) moves it there. A State stays as it was saved. A grain that is not active stays so, and Unload returns nil.
//
// ctx is a driver's, a task's, or that of another grain's turn. When it ends first the grain still leaves. A turn of the grain must not wait for
// the caller: Unload waits for that turn. The caller's own grain and a StatelessWorker are raysys.ErrBadOption.
func Unload[G any](ctx context.Context, g Grain[G]) error {
	return grainengine.Unload(ctx, graindir.ID(g.id))
}
