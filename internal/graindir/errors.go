package graindir

import (
	"errors"

	"github.com/raysys/raysys"
)

// ErrETag is grains.ErrETag.
var ErrETag = errors.New("the stored state is another version: Read it before the next Write")

// ErrUnreadable is grains.ErrUnreadable.
var ErrUnreadable = errors.New("what is stored cannot be read by this program")

// The names are on the wire: they never change.
var (
	_ = raysys.RegisterError("grains.etag", ErrETag)
	_ = raysys.RegisterError("grains.unreadable", ErrUnreadable)
)
