package grains

import "github.com/raysys/raysys/internal/grainengine"

// ErrActivation: OnActivate failed, or a State could not be loaded; the cause is wrapped. The next call tries again.
var ErrActivation = grainengine.ErrActivation

// ErrETag: a State was not written because what is stored is not the version that was read. Read it, and try again.
var ErrETag = grainengine.ErrETag
