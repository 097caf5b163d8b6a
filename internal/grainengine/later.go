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

// Call is implemented by a grain's call with result R, whose future is the method's context.
type Call[R any] interface {
	// AnswerLater settles the call; it is called at most once.
	AnswerLater(v R)
	// Copies reports whether AnswerLater has copied what v holds when it returns: the caller is another node.
	Copies() bool
}

// Later is a call that is answered after its turn.
type Later[R any] struct {
	call     Call[R]
	answered atomic.Bool
}

// LaterOf returns the call of a method with results R that ctx is the context of. A turn takes it once.
func LaterOf[R any](ctx context.Context) (*Later[R], error) {
	if f, ok := ctx.(*core.Future); ok {
		if c, ok := f.Work().(Call[R]); ok {
			return &Later[R]{call: c}, nil
		}
	}
	return nil, errors.New("the context is not that of a call with this result")
}

// Answer counts the first time only, and not when the call has ended before: by its deadline, or its caller. v passes
// to the caller, but see Copies.
func (l *Later[R]) Answer(v R) {
	if !l.answered.Swap(true) {
		l.call.AnswerLater(v)
	}
}

// Copies reports whether Answer has copied what v holds when it returns: the caller is another node.
func (l *Later[R]) Copies() bool { return l.call.Copies() }
