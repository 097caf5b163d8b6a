package grains

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Near keeps a task, or the grain that a call places, to the node on which g is active. Where g is not active no node is near it: the
// work fails with raysys.ErrNoCapacity, or waits until g is active with raysys.WaitForResources. raysys.Not keeps it to the other nodes,
// raysys.Prefer makes a preference of it. A grain is neither kept near nor away from itself. For tasks and calls: see raysys.OnNode.
func Near[G any](g Grain[G]) raysys.Option {
	return func(o *core.Options) {
		if g.id.Kind == "" {
			o.Fail(fmt.Errorf("%w: Near of the zero Grain: use Kind.Get", raysys.ErrInvalidRef))
			return
		}
		o.Want(core.Condition{Grain: core.GrainName(g.id)})
	}
}
