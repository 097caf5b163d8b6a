package runner

import (
	"context"
	"sync/atomic"
)

// Wait starts something that calls done once, and waits for that or for the end of ctx.
func Wait[T any](ctx context.Context, start func(done func(T, error))) (T, error) {
	return WaitOr(ctx, start, func(T, error) {})
}

// WaitOr is Wait for results that must not be dropped: late is called with a result that comes after ctx has ended.
func WaitOr[T any](ctx context.Context, start func(done func(T, error)), late func(T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	came := make(chan outcome, 1)
	var settled atomic.Bool // by what comes or by the end of the wait, whichever is first
	start(func(v T, err error) {
		if settled.Swap(true) {
			late(v, err)
			return
		}
		came <- outcome{v, err}
	})
	select {
	case o := <-came:
		return o.v, o.err
	case <-ctx.Done():
	}
	if settled.Swap(true) { // it comes this moment
		o := <-came
		return o.v, o.err
	}
	var zero T
	return zero, context.Cause(ctx)
}
