package testkit

import (
	"errors"
	"slices"

	"github.com/raysys/raysys"
)

// refusals are the errors that a call ends in only when it had no effect. ErrSuspended is not among them: a turn may have
// written before the lease ran out and its answer was held back.
var refusals = []error{raysys.ErrNotDelivered, raysys.ErrOverloaded}

// NotDone reports whether err says that a call had no effect. After anything else it may have had: a deadline, a lost
// link, an answer that a fence held back, an error of the method itself. What matches raysys.ErrOutcomeUnknown may have
// had one, whatever else it matches.
func NotDone(err error) bool {
	var ran *raysys.TaskError
	if errors.As(err, &ran) || errors.Is(err, raysys.ErrOutcomeUnknown) {
		return false
	}
	return slices.ContainsFunc(refusals, func(e error) bool { return errors.Is(err, e) })
}
