package devices

import (
	"context"
	"sync/atomic"
	"time"
)

// lane bounds calls to one thing that may hang, one call at a time.
type lane struct{ busy atomic.Bool }

// call runs f and returns ErrSilent when it takes longer than limit, or the cause of ctx's end. Its goroutine is left to f then,
// and until f returns every further call of the lane ends with ErrSilent at once, without a goroutine.
func call[T any](ctx context.Context, l *lane, limit time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	if l.busy.Swap(true) {
		return none, ErrSilent
	}
	done := make(chan result, 1) // has room for the result of a call that nobody waits for any more
	go func() {
		v, err := f()
		l.busy.Store(false)
		done <- result{v, err}
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case r := <-done:
		return r.v, r.err
	case <-t.C:
		return none, ErrSilent
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
