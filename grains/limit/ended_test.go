package limit_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/limit"
	"github.com/raysys/raysys/testkit"
)

// TestEndedContext takes with contexts that have ended, or end at once: each Take fails with that, and nothing is left.
func TestEndedContext(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		for i := range 300 {
			ctx, cancel := context.WithCancel(k.Context())
			if i%2 == 0 {
				cancel()
			} else {
				go cancel()
			}
			for _, l := range []limit.Limit{limit.AtMost("ended", 1), limit.Rate("ended", 1, time.Hour)} {
				p, err := limit.Take(ctx, l, strconv.Itoa(i), 1)
				if err == nil {
					p.Release()
				} else if !errors.Is(err, context.Canceled) {
					t.Fatal(i, err)
				}
			}
			cancel()
		}
	})
}

// counted is a context without an end that counts what waits for it.
type counted struct {
	context.Context
	done  chan struct{} // its own, so that package context asks it
	waits *atomic.Int64
}

func (c counted) Done() <-chan struct{} { return c.done }

func (c counted) AfterFunc(func()) (stop func() bool) {
	c.waits.Add(1)
	return func() bool { c.waits.Add(-1); return true }
}

// TestRateKeepsNothing takes units of a rate in a context that does not end, as a driver does: nothing of them stays.
func TestRateKeepsNothing(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		c := counted{k.Context(), make(chan struct{}), new(atomic.Int64)}
		for range 50 {
			if _, err := limit.Take(c, limit.Rate("kept", 1000, time.Second), "", 1); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.waits.Load(); n > 1 { // the driver itself does, once
			t.Errorf("%d of 50 permits wait for the end of their context", n)
		}
		p, err := limit.Take(c, limit.Rate("kept", 1000, time.Second), "", 1)
		if err != nil || p.Context().Err() != nil {
			t.Fatal(err, p.Context().Err())
		}
		if p.Release(); p.Context().Err() == nil {
			t.Error("the context of a permit goes on after Release")
		}
	})
}

// ledger is a durable grain, whose turns take units.
type ledger struct{ Sum grains.State[int] }

var (
	ledgers = grains.Define[ledger]("limit_test.ledger", grains.Durable())
	entries = grains.Action0(ledgers, "enter", func(g *ledger, ctx context.Context) error {
		p, err := limit.Take(ctx, limit.AtMost("ledger", 1), "", 1)
		if err != nil {
			return err
		}
		g.Sum.Value++
		p.Release()
		return nil
	})
)

// TestDurableTurn takes units in turns of a durable grain.
func TestDurableTurn(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context) {
		for range 5 {
			if _, err := entries.Call(ctx, ledgers.Get("a")).Get(ctx); err != nil {
				t.Fatal(err)
			}
			take(k, ctx, limit.AtMost("ledger", 1), "", 1).Release()
		}
	})
}
