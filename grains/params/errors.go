package params

import (
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// The states of a model that a verb may meet.
var (
	// ErrNoModel: a shard has no weights, or those of another Init than its neighbours. It was never given any, or was
	// lost with its node: Init again.
	ErrNoModel = core.Sentinel("params.nomodel", "no weights: Init the model, or Init it again")
	// ErrStale: the push is for a version that is too old, or of another Init. Pull, and compute the gradient again.
	ErrStale = core.Sentinel("params.stale", "the weights have moved on: pull them again")
	// ErrLength: a gradient is not as long as the weights, or a range does not lie in them.
	ErrLength = core.Sentinel("params.length", "wrong length")
	// ErrWorker: two workers with the same number pushed different gradients for the same version.
	ErrWorker = core.Sentinel("params.worker", "two workers have the same number")
	// ErrConfig: the Config of an Init cannot be meant.
	ErrConfig = core.Sentinel("params.config", "bad configuration of a model")
)

// PushError says which shards did not take their part of a push. At the others it counts.
type PushError struct {
	Model  string
	Shards []int // that refused it, or did not answer
	Of     int
	Err    error // of the first
}

func (e *PushError) Error() string {
	return fmt.Sprintf("push to %s: shards %v of %d: %v", e.Model, e.Shards, e.Of, e.Err)
}

// Unwrap returns the first shard's error.
func (e *PushError) Unwrap() error { return e.Err }
