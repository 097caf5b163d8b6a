package raysys

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// Outcome is how one future ended.
type Outcome[T any] struct {
	Value T
	Err   error
}

// Outcomes are the ends of several futures, in their order.
type Outcomes[T any] []Outcome[T]

// Values returns the values, or the first error in order.
func (os Outcomes[T]) Values() ([]T, error) {
	vs := make([]T, len(os))
	for i, o := range os {
		if o.Err != nil {
			return nil, fmt.Errorf("outcome %d of %d: %w", i, len(os), o.Err)
		}
		vs[i] = o.Value
	}
	return vs, nil
}

// GetAll waits for all refs and returns each one's outcome: one failure hides no other result. When ctx ends first,
// the outcomes still open carry its end.
func GetAll[T any](ctx context.Context, refs []Ref[T]) Outcomes[T] {
	os := make(Outcomes[T], len(refs))
	core.GetAll(ctx, refs, func(i int, v T, err error) { os[i] = Outcome[T]{v, err} })
	return os
}

// Wait returns when n of refs have settled, ready or failed, or when ctx ends; its deadline is the time limit. ready
// are the settled ones in the order they were found, rest the others in the order of refs. refs stays as it was;
// where ready are its first ones, both are parts of it, so change elements of copies only. When ctx ends first, ready
// holds the references that are ready and err is the cause. n above len(refs) waits for all.
//
// A negative n is ErrBadOption. A zero Ref, and one that comes twice, is ErrInvalidRef where Wait comes upon it: it looks
// no further than the n-th that has settled.
func Wait[T any](ctx context.Context, refs []Ref[T], n int) (ready, rest []Ref[T], err error) {
	return core.Wait(ctx, refs, n)
}
