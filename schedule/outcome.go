package schedule

import (
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
)

// An error of a firing is its outcome, unless a fault of the system explains it: then it is not known whether the work was done, or it was not, and
// the firing is tried again. The first row that an error matches decides; what matches none is an outcome.
var outcomes = []struct {
	err   error
	again bool
}{
	{core.ErrOwnFailure, false},       // a *raysys.TaskError: whatever it wraps, the work has said so
	{grainengine.ErrReplyGone, false}, // these two match ErrOutcomeUnknown
	{grainengine.ErrUnsettled, false},

	{raysys.ErrNodeDead, true},
	{raysys.ErrUnreachable, true},
	{raysys.ErrNotDelivered, true},
	{raysys.ErrOutcomeUnknown, true},
	{raysys.ErrSuspended, true},
	{raysys.ErrFenced, true},
	{raysys.ErrStoreReplaced, true},
	{raysys.ErrMoved, true},
	{raysys.ErrClosed, true},
	{raysys.ErrOverloaded, true},
	{raysys.ErrNameTaken, true},
	{raysys.ErrUnknownFunc, true},

	{raysys.ErrCancelled, false}, // by whoever has cancelled the run, or has forgotten its name
	{raysys.ErrDeadline, false},  // that of the handle
	{raysys.ErrNoRuntime, false},
	{raysys.ErrBadDefinition, false},
	{raysys.ErrBadOption, false},
	{raysys.ErrNoCapacity, false},
	{raysys.ErrReleased, false},
	{raysys.ErrInvalidRef, false},
	{raysys.ErrObjectLost, false},
	{raysys.ErrStoreFull, false},
	{raysys.ErrCycle, false},
	{raysys.ErrPanic, false},
	{raysys.ErrEncode, false},
	{raysys.ErrTooLarge, false},
	{raysys.ErrNoStore, false},
	{raysys.ErrNotFound, false},
	{raysys.ErrNondeterministic, false},
	{raysys.ErrKeyReused, false},
	{raysys.ErrDeviceSick, false},
	{raysys.ErrGroupRemoved, false},
	{raysys.ErrFilter, false},
}

// triedAgain reports whether a firing that ended with err is made again.
func triedAgain(err error) bool {
	var own *raysys.TaskError
	var orphaned *core.Orphaned // its submitter has ended, or given it up
	switch {
	case err == nil || errors.As(err, &own), errors.Is(err, grainengine.ErrActivation) && !errors.Is(err, grainengine.ErrNotLoaded):
		return false
	case errors.As(err, &orphaned):
		return true
	}
	for _, row := range outcomes {
		if errors.Is(err, row.err) {
			return row.again
		}
	}
	return false
}
