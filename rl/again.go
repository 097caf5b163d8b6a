package rl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
)

const (
	patience   = 100 // failures, one after the other
	pauseLeast = 20 * time.Millisecond
	pauseMost  = time.Second
)

// again makes a call until its outcome is known: what is lost with a node is there again, on another.
func again[T any](ctx context.Context, call func(context.Context) raysys.Ref[T]) (T, error) {
	var f failures
	for {
		v, err := call(ctx).Get(ctx)
		if err == nil {
			return v, nil
		}
		if err := f.another(ctx, err); err != nil {
			return v, err
		}
	}
}

// failures counts those that follow each other.
type failures int

// another waits a little before the next attempt, longer each time; it returns err where there shall be none.
func (f *failures) another(ctx context.Context, err error) error {
	if *f++; !lost(err) || ctx.Err() != nil {
		return err
	} else if *f > patience {
		return fmt.Errorf("%d times, one after the other: %w", patience, err)
	}
	if !pauseFor(ctx, min(pauseMost, pauseLeast<<min(*f-1, 10))) {
		return err
	}
	return nil
}

// pauseFor reports whether ctx has outlived it.
func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lost: a node died, was fenced or cannot be reached, with something that a call needed. A later call may find it again. Where the node is that of the
// driver, its ctx ends with it.
func lost(err error) bool {
	if raysys.Retriable(err) {
		return true
	}
	for _, state := range []error{
		raysys.ErrNodeDead, raysys.ErrOutcomeUnknown, raysys.ErrNotDelivered, raysys.ErrUnreachable, raysys.ErrObjectLost, raysys.ErrNotFound,
		raysys.ErrDeadline, raysys.ErrMoved, raysys.ErrFenced,
	} {
		if errors.Is(err, state) {
			return true
		}
	}
	return false
}
