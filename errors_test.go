package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
)

// The sentinels tell states apart; two of them are also what the standard library calls them.
func TestSentinels(t *testing.T) {
	all := []error{
		raysys.ErrNoRuntime, raysys.ErrUnknownFunc, raysys.ErrBadDefinition, raysys.ErrBadOption, raysys.ErrNoCapacity,
		raysys.ErrOverloaded, raysys.ErrCancelled, raysys.ErrDeadline, raysys.ErrReleased, raysys.ErrInvalidRef,
		raysys.ErrObjectLost, raysys.ErrCycle, raysys.ErrClosed, raysys.ErrPanic, raysys.ErrEncode,
	}
	for i, a := range all {
		for k, b := range all {
			if errors.Is(fmt.Errorf("wrapped: %w", a), b) != (i == k) {
				t.Errorf("errors.Is(%v, %v) is wrong", a, b)
			}
		}
		if got := raysys.Retriable(fmt.Errorf("wrapped: %w", a)); got != (a == error(raysys.ErrOverloaded)) {
			t.Errorf("Retriable(%v) is %v", a, got)
		}
		if got := errors.Is(a, context.Canceled); got != (a == error(raysys.ErrCancelled) || a == error(raysys.ErrClosed)) {
			t.Errorf("errors.Is(%v, context.Canceled) is %v", a, got)
		}
		if got := errors.Is(a, context.DeadlineExceeded); got != (a == error(raysys.ErrDeadline)) {
			t.Errorf("errors.Is(%v, context.DeadlineExceeded) is %v", a, got)
		}
	}
}

func TestTaskErrorText(t *testing.T) {
	cause := fmt.Errorf("cause: %w", errBoom)
	for want, err := range map[string]error{
		"f: cause: boom":             &raysys.TaskError{Function: "f", Attempt: 1, Err: cause},
		"f (attempt 3): cause: boom": &raysys.TaskError{Function: "f", Attempt: 3, Err: cause},
		"f: panic: 7":                &raysys.TaskError{Function: "f", Err: &raysys.PanicError{Value: 7}},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	err := error(&raysys.TaskError{Err: &raysys.PanicError{Value: cause}})
	if !errors.Is(err, raysys.ErrPanic) || !errors.Is(err, errBoom) {
		t.Error("a panic with an error matches ErrPanic and the error")
	}
}
