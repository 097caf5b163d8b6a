package tasks

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/taskengine"
)

// Task is a typed handle of a function of one parameter. Make it once, in a package variable; it is immutable.
type Task[A, R any] struct {
	_ [0]*func(A) R
	k taskengine.Task
}

// With returns a handle whose submissions have opts beside those that k has; of two that contradict each other the later
// one counts. Keep it and reuse it; options that cannot be meant fail each submission with ErrBadOption.
func (k Task[A, R]) With(opts ...raysys.Option) Task[A, R] {
	return Task[A, R]{k: k.k.With(opts)}
}

// Go submits the task and returns its future at once. A Ref inside arg is a dependency: the task starts when it is
// there, and fails with its error, without running, when it failed; a Handle is passed as it is. arg is handed over:
// do not change what it points to afterwards.
//
// Everything that can be wrong is reported through the future: ErrNoRuntime, ErrUnknownFunc, ErrBadOption,
// ErrNoCapacity, ErrOverloaded, a context that has ended. When the queue is full, Go blocks in a driver until there
// is room or ctx ends.
func (k Task[A, R]) Go(ctx context.Context, arg A) raysys.Ref[R] {
	return raysys.Ref[R]{Link: taskengine.Go[A, R](ctx, k.k, arg)}
}

// On is Go with the parameter given by reference: the task starts when the value is there, without a Get here.
// raysys.Ready turns a value into a reference.
func (k Task[A, R]) On(ctx context.Context, arg raysys.Ref[A]) raysys.Ref[R] {
	return raysys.Ref[R]{Link: k.k.On(ctx, arg.Link)}
}

// Map submits the task for each of xs and returns the futures in the same order. It is Go in bulk: one allocation for
// all records, one entry per CPU in the queue, and the ids that len(xs) calls of Go would get. The records are
// freed together, when the last of the futures is gone.
func (k Task[A, R]) Map(ctx context.Context, xs []A) []raysys.Ref[R] {
	return taskengine.Map[A, R](ctx, k.k, xs)
}
