package raysys

import (
	"context"
	"iter"

	"github.com/raysys/raysys/internal/core"
)

// AsCompleted yields the index and the ref of each future as it settles, first come first. It ends after the last one,
// or when ctx ends, which the caller sees in ctx.Err(). Leaving the loop early costs nothing. For refs that are made in
// the loop see RefSet.
func AsCompleted[T any](ctx context.Context, refs []Ref[T]) iter.Seq2[int, Ref[T]] {
	return func(yield func(int, Ref[T]) bool) {
		var s RefSet[T]
		s.Add(refs...)
		s.AsCompleted(ctx)(yield)
	}
}

// RefSet is a set of futures that may grow while a loop takes what has settled out of it:
//
//	var open raysys.RefSet[int]
//	open.Add(first...)
//	for _, r := range open.AsCompleted(ctx) {
//		v, err := r.Get(ctx)
//		...
//		open.Add(next.Go(ctx, v))
//	}
//
// The zero value is an empty set. Any goroutine may call Add; one loop at a time runs over a set. A RefSet must not be
// copied.
type RefSet[T any] struct{ set core.RefSet }

// Add puts refs into the set, under the next indices.
func (s *RefSet[T]) Add(refs ...Ref[T]) { s.set.Add(core.Links[T](refs)) }

// AsCompleted yields the futures of the set as they settle, first come first, each with the number of its Add, and takes
// them out. It ends when the set is empty, or when ctx ends, which the caller sees in ctx.Err(). What a loop that was left
// early has not yielded stays in the set. A second loop at the same time panics.
func (s *RefSet[T]) AsCompleted(ctx context.Context) iter.Seq2[int, Ref[T]] {
	return func(yield func(int, Ref[T]) bool) {
		s.set.AsCompleted(ctx)(func(i int, l core.Link) bool { return yield(i, Ref[T]{Link: l}) })
	}
}
