package grains

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys"
)

// ErrActivation: OnActivate failed, or a State could not be loaded; the cause is wrapped. The next call tries again.
var ErrActivation = errors.New("activation failed")

// ErrETag: a State was not written because what is stored is not the version that was read. Read it, and try again.
var ErrETag = errors.New("the stored state is another version: Read it before the next Write")

// The names are on the wire: they never change.
var (
	_ = raysys.RegisterError("grains.activation", ErrActivation)
	_ = raysys.RegisterError("grains.etag", ErrETag)
	_ = raysys.Register[*CycleError]("grains.CycleError")
)

// CycleError is the failure of a call that would wait for itself. It matches raysys.ErrCycle.
type CycleError struct {
	Chain []string // the turns, from the one that waits back to itself
}

func (e *CycleError) Error() string {
	return fmt.Sprintf("call cycle %s: declare the kind or the method Reentrant to admit it, or do not wait in the turn",
		strings.Join(e.Chain, " -> "))
}

// Is makes errors.Is(err, raysys.ErrCycle) true.
func (e *CycleError) Is(target error) bool { return target == error(raysys.ErrCycle) }
