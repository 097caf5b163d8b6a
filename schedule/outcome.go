package schedule

import (
	"errors"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
)

// An error of a firing is its outcome, unless a fault of the system explains it: then it is not known whether the work was done, or it was not, and
// the firing is tried again. The first row that an error matches decides; what matches none is an outcome.
var outcomes = []struct {
	again bool
	errs  []error
}{
	// These match ErrOutcomeUnknown too, and the first whatever a *raysys.TaskError wraps.
	{false, []error{core.ErrOwnFailure, grainengine.ErrReplyGone, grainengine.ErrUnsettled}},
	{true, []error{
		raysys.ErrNodeDead, raysys.ErrUnreachable, raysys.ErrNotDelivered, raysys.ErrOutcomeUnknown, raysys.ErrSuspended, raysys.ErrFenced,
		raysys.ErrStoreReplaced, raysys.ErrMoved, raysys.ErrClosed, raysys.ErrOverloaded, raysys.ErrNameTaken, raysys.ErrUnknownFunc,
	}},
	{false, []error{ // ErrCancelled is by whoever has cancelled the run or has forgotten its name, ErrDeadline that of the handle
		raysys.ErrCancelled, raysys.ErrDeadline, raysys.ErrNoRuntime, raysys.ErrBadDefinition, raysys.ErrBadOption, raysys.ErrNoCapacity,
		raysys.ErrReleased, raysys.ErrInvalidRef, raysys.ErrObjectLost, raysys.ErrStoreFull, raysys.ErrCycle, raysys.ErrPanic, raysys.ErrEncode,
		raysys.ErrTooLarge, raysys.ErrNoStore, raysys.ErrNotFound, raysys.ErrNondeterministic, raysys.ErrKeyReused, raysys.ErrDeviceSick,
		raysys.ErrGroupRemoved, raysys.ErrFilter, raysys.ErrLeaving,
	}},
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
		if slices.ContainsFunc(row.errs, func(e error) bool { return errors.Is(err, e) }) {
			return row.again
		}
	}
	return false
}
