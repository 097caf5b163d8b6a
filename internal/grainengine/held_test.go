package grainengine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

// heldGate holds what the test does not let leave.
type heldGate struct {
	mu   sync.Mutex
	held []func(error)
}

func (g *heldGate) Leave(_ []*core.Future, then func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, then)
}

// let lets call i leave, counted as they came.
func (g *heldGate) let(i int, err error) {
	g.mu.Lock()
	then := g.held[i]
	g.mu.Unlock()
	then(err)
}

type marked struct {
	N int
	R []raysys.Handle[int]
}

// TestGateKeepsTheOrder: a call whose argument must not leave its node yet holds the later calls of its turn to that grain
// (rule C5), and no others. One that must not leave at all fails, and the rest goes on.
func TestGateKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRovers(t)
		mark := grains.Method(r.kind, "mark", func(g *rover, _ context.Context, m marked) (int, error) {
			g.seen = append(g.seen, m.N)
			return m.N, nil
		})
		a, b := r.net.add("a"), r.net.add("b")
		r.on(b)
		gate := &heldGate{}
		a.job.Gate = gate
		ctx := a.context()
		x, y := r.kind.Get("x"), r.kind.Get("y")
		v := raysys.Put(ctx, 42).Handle()
		seen := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			if got, err := r.noted.Call(b.context(), x).Get(b.context()); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: the grain ran %v, %v; want %v: calls of one turn start in the order they were made", when, got, err, want)
			}
		}
		r.note.Call(ctx, x, 1)
		seen("before", 1)
		mark.Call(ctx, x, marked{2, []raysys.Handle[int]{v}})
		r.note.Call(ctx, x, 3)
		bad := mark.Call(ctx, x, marked{4, []raysys.Handle[int]{v}})
		mark.Call(ctx, x, marked{5, []raysys.Handle[int]{v}})
		r.note.Call(ctx, x, 6)
		wants(t, ctx, r.add.Call(ctx, y, 1), 1) // of another grain
		seen("all wait for the first", 1)
		gate.let(2, nil)
		gate.let(1, errTooFar)
		seen("those behind it may leave", 1)
		gate.let(0, nil)
		seen("the first may leave", 1, 2, 3, 5, 6)
		if _, err := bad.Get(ctx); !errors.Is(err, errTooFar) {
			t.Errorf("a call that must not leave: %v", err)
		}
		r.note.Call(ctx, x, 7)
		seen("no call is held", 1, 2, 3, 5, 6, 7)
	})
}
