package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// TestChainRetried: the next attempt of a call is of the same chain as the first. It comes back to a reentrant grain whose turn
// waits for it, wherever the two grains are.
func TestChainRetried(t *testing.T) {
	busy := errors.New("busy")
	for _, other := range []int{1, 2} {
		t.Run(fmt.Sprint("a on n1, b on n", other), func(t *testing.T) {
			p := newChains()
			var attempts, back atomic.Int64
			home := grains.Method0(p.kind, "home", func(*chainCell, context.Context) (int, error) { return int(back.Add(1)), nil }).Reentrant()
			visit := grains.Method0(p.kind, "visit", func(_ *chainCell, ctx context.Context) (int, error) {
				n, err := home.Call(ctx, p.kind.Get("a")).Get(ctx)
				if attempts.Add(1) == 1 {
					return 0, errors.Join(busy, err)
				}
				return n, err
			}).Idempotent().With(raysys.Retries(2), raysys.Backoff(time.Second, time.Second), raysys.RetryIf(func(error) bool { return true }))
			leave := grains.Method0(p.kind, "leave", func(_ *chainCell, ctx context.Context) (int, error) {
				return visit.Call(ctx, p.kind.Get("b")).Get(ctx)
			})
			p.kit(t, func(k *testkit.Kit) {
				ctx := k.Context()
				if err := errors.Join(p.put(ctx, "a", 1), p.put(ctx, "b", other)); err != nil {
					k.T().Fatal(err)
				}
				n, err := leave.Call(ctx, p.kind.Get("a")).Get(ctx)
				if err != nil || n != 2 || attempts.Load() != 2 {
					k.T().Errorf("a -> b -> a, where b fails once and is called again: %d, %v after %d attempts of b; want 2 comebacks of 2 attempts", n, err, attempts.Load())
				}
			})
		})
	}
}
