package raysys_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	windowOpen atomic.Int64 // tasks that run
	windowMost atomic.Int64
	windowTask = tasks.Define("window.task", func(ctx context.Context, n int) (int, error) {
		now := windowOpen.Add(1)
		defer windowOpen.Add(-1)
		for most := windowMost.Load(); now > most && !windowMost.CompareAndSwap(most, now); most = windowMost.Load() {
		}
		if n < 0 {
			return 0, errNegative
		}
		return n, nil
	})
	errNegative = errors.New("a negative number")
	_           = raysys.RegisterError("window.negative", errNegative)
)

// TestWindow: no more than Max tasks are open, and Wait returns when all have ended.
func TestWindow(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	ctx := k.Context()
	windowMost.Store(0)
	w := raysys.Window[int]{Max: 3}
	var refs []raysys.Ref[int]
	for i := range 40 {
		r := windowTask.Go(ctx, i)
		refs = append(refs, r)
		if err := w.Add(ctx, r); err != nil {
			t.Fatal(err)
		}
		open := 0
		for _, r := range refs {
			if p := raysys.PhaseOf(r); p == raysys.PhasePending {
				open++
			}
		}
		if open > 3 {
			t.Fatal(open, "are open")
		}
	}
	if err := w.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for i, r := range refs {
		if v, err := r.Get(ctx); v != i || err != nil {
			t.Fatal(v, err)
		}
	}
	if most := windowMost.Load(); most > 4 { // one more is submitted before Add waits
		t.Fatal(most, "ran at the same time")
	}
}

// TestWindowFails: the first error is returned once.
func TestWindowFails(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	w := raysys.Window[int]{Max: 1}
	failed := 0
	for _, n := range []int{1, -1, -2, 2} {
		if err := w.Add(ctx, windowTask.Go(ctx, n)); err != nil {
			if failed++; !errors.Is(err, errNegative) {
				t.Fatal(err)
			}
		}
	}
	if err := w.Wait(ctx); err != nil || failed != 1 {
		t.Fatal(err, failed)
	}
	if err := w.Add(ctx, raysys.Ref[int]{}); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Fatal(err)
	}
	if err := w.Add(t.Context(), windowTask.Go(ctx, 1)); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := w.Add(ctx, windowBlocked.Go(ctx, 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(ended, windowBlocked.Go(ctx, 1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// windowBlocked ends with its context.
var windowBlocked = tasks.Define("window.blocked", func(ctx context.Context, n int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
})
