package grainengine

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
)

// ErrLater is returned by a method that has taken its call with LaterOf and answers it in a later turn. The grain must
// have no State: nothing fences such an answer.
var ErrLater = errors.New("the call is answered later")

// Later is a call that is answered after its turn.
type Later[R any] struct {
	call     *call
	answered atomic.Bool
}

// LaterOf returns the call of a method with results R that ctx is the context of. A turn takes it once.
func LaterOf[R any](ctx context.Context) (*Later[R], error) {
	if f, ok := ctx.(*core.Future); ok {
		if c := callOf(f); c != nil && c.method.value == core.TypeOf[R]() {
			return &Later[R]{call: c}, nil
		}
	}
	return nil, errors.New("the context is not that of a call with this result")
}

// Answer settles the call with v. A second answer does nothing, and neither does one to a call that has ended by its deadline or was
// cancelled. v belongs to the caller from then on, but see Copies.
func (l *Later[R]) Answer(v R) {
	if !l.answered.Swap(true) {
		*(*R)(l.call.Future.ValueAt()) = v
		l.call.answerLater()
	}
}

// Copies reports whether Answer has copied what v holds when it returns: the caller is another node, and the answer is encoded when
// the call settles.
func (l *Later[R]) Copies() bool { return l.call.inbound() != nil }
