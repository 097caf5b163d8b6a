package grains

import (
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

// ErrActivation: OnActivate failed, or a State could not be loaded; the cause is wrapped. The next call tries again.
var ErrActivation = grainengine.ErrActivation

// ErrETag: a State was not written because what is stored is not the version that was read. Read it, and try again.
var ErrETag = graindir.ErrETag

// ErrUnreadable: what is stored of a grain was written by a newer program, or as types that this one cannot read. Nothing is
// overwritten: run a program that knows it, or clear it with one.
var ErrUnreadable = graindir.ErrUnreadable

// ErrDurableTurn: a turn of a Durable grain called a method that is neither read-only nor idempotent, or one of a Durable
// kind that is not read-only. The turn may run again, and the call would then count twice.
var ErrDurableTurn = grainengine.ErrDurableTurn

// ErrReplyGone: the call of a Durable grain was made before, and has counted, but the grain keeps its reply no more: see Durable
// for how many it keeps. It matches raysys.ErrOutcomeUnknown.
var ErrReplyGone = grainengine.ErrReplyGone

// ErrSettled: a Later was settled before.
var ErrSettled = grainengine.ErrSettled

// ErrUnsettled: a grain kept the call by LaterMethod, and its activation ended before it settled the call. It matches
// raysys.ErrOutcomeUnknown.
var ErrUnsettled = grainengine.ErrUnsettled
