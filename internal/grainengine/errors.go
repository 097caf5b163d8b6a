package grainengine

import (
	"errors"

	"github.com/raysys/raysys"
)

// ErrActivation is grains.ErrActivation.
var ErrActivation = errors.New("activation failed")

// ErrETag is grains.ErrETag.
var ErrETag = errors.New("the stored state is another version: Read it before the next Write")

// The names are on the wire: they never change.
var (
	_ = raysys.RegisterError("grains.activation", ErrActivation)
	_ = raysys.RegisterError("grains.etag", ErrETag)
)
