package grainengine

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

// ErrActivation is grains.ErrActivation.
var ErrActivation = errors.New("activation failed")

// ErrNotLoaded says of an ErrActivation that a State was not read: the program's OnActivate has not run, and the cause tells whether the next
// call may fare better.
var ErrNotLoaded = errors.New("its State was not read")

// ErrDurableTurn is grains.ErrDurableTurn.
var ErrDurableTurn = errors.New("a turn of a durable grain may run again, and this call may not")

// ErrReplyGone is grains.ErrReplyGone.
var ErrReplyGone = fmt.Errorf("%w: the reply to a call that was made before is not kept", raysys.ErrOutcomeUnknown)

// ErrSettled is grains.ErrSettled.
var ErrSettled = errors.New("the call is settled already")

// ErrUnsettled is grains.ErrUnsettled.
var ErrUnsettled = fmt.Errorf("%w: the grain kept the call and did not settle it", raysys.ErrOutcomeUnknown)

// The names are on the wire: they never change.
var (
	_ = raysys.RegisterError("grains.activation", ErrActivation)
	_ = raysys.RegisterError("grains.not-loaded", ErrNotLoaded)
	_ = raysys.RegisterError("grains.durable-turn", ErrDurableTurn)
	_ = raysys.RegisterError("grains.reply-gone", ErrReplyGone)
	_ = raysys.RegisterError("grains.settled", ErrSettled)
	_ = raysys.RegisterError("grains.unsettled", ErrUnsettled)
)
