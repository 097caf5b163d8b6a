package system_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// settlesFirst ends the gate of a child that has settled when its parent fails.
const settlesFirst = " settles"

var (
	errFirstAttempt = errors.New("the first attempt fails")

	// failsOnce has its child known to a grain, and fails in its first attempt: before the gate of the child is open, or when the
	// child has settled. Then it returns what comes of the child.
	failsOnce = tasks.DefineIn(table, "failsOnce", func(ctx context.Context, gate string) (int, error) {
		h := draw.With(on("w3")).Go(ctx, gate).Handle()
		if _, second := attempted.LoadOrStore(gate, true); second {
			retried.Store(gate)
			return h.Ref().Get(ctx)
		}
		if _, err := holderHold.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[int]{h}).Get(ctx); err != nil {
			return 0, err
		}
		if strings.HasSuffix(gate, settlesFirst) { // after it is recorded: else its outcome would have come along
			openGate(gate)
			if _, err := h.Ref().Get(ctx); err != nil {
				return 0, err
			}
		}
		return 0, errFirstAttempt
	})
	// failsOnceHere submits it on its own node.
	failsOnceHere = tasks.DefineIn(table, "failsOnceHere", func(ctx context.Context, gate string) (int, error) {
		return failsOnce.With(append(retriedOnce, on("w1"))...).Go(ctx, gate).Get(ctx)
	})
	attempted sync.Map     // the gates of failsOnce
	retried   atomic.Value // the gate of the last failsOnce that ran again

	retriedOnce = []raysys.Option{raysys.Retries(2), raysys.RetryIf(func(error) bool { return true })}
)

// TestRejoined: a parent that fails and runs again on the same node joins its recorded child, which runs once: the parent
// and who was given the child by the attempt that failed have one outcome of it.
func TestRejoined(t *testing.T) {
	for name, parent := range map[string]tasks.Task[string, int]{"submitted by another node": failsOnce.With(append(retriedOnce, on("w1"))...), "submitted there": failsOnceHere.With(on("w1"))} {
		for _, when := range []string{"has settled", "is pending"} {
			t.Run(name+", the child "+when, func(t *testing.T) {
				_, sctx, ctx := newWill(t)
				gate := newGate()
				if when == "has settled" {
					gate += settlesFirst
				}
				before := drawn.Load()
				r := parent.Go(sctx, gate)
				if when == "is pending" {
					settles(t, "the parent runs again", func() bool { return retried.Load() == gate })
					openGate(gate)
				}
				n, err := r.Get(sctx)
				if err != nil {
					t.Fatal(err)
				}
				if told := summed(ctx, t, "w2"); told != n {
					t.Errorf("the parent has %d of its child, another node was told %d", n, told)
				}
				if runs := drawn.Load() - before; runs != 1 {
					t.Errorf("the child has run %d times, want 1", runs)
				}
			})
		}
	}
}
