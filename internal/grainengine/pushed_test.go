package grainengine_test

import (
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
)

// TestPushedFirst: arguments come before their calls: as many as there is room for are kept, others are asked for, and those of calls that
// were cancelled or did not come are let go. The calls run in their order.
func TestPushedFirst(t *testing.T) {
	r, a, b, ctx := apart(t)
	g := r.kind.Get("x")
	wants(t, ctx, r.add.Call(ctx, g, 1), 1)
	at := a.Peer(core.NodeKey{Node: "b", Incarnation: 1}).(*fakePeer)
	set := func(p *fakePeer, what *bool, on bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		*what = on
		p.cond.Broadcast()
	}
	set(at.twin, &at.twin.behind, true)
	var calls []raysys.Ref[int]
	var want []int
	for i := range 12 {
		n := 1<<20 - i
		calls = append(calls, r.big.Call(ctx, g, make([]byte, n)))
		if i != 3 && i != 11 {
			want = append(want, n)
		}
	}
	set(at, &at.full, true)
	nodetest.Fails(t, ctx, r.big.Call(ctx, g, make([]byte, 300_000)), raysys.ErrOverloaded) // its argument went, its head does not
	set(at, &at.full, false)
	nodetest.Eventually(t, "all arguments have come", func() bool {
		early, _, _ := grainengine.Pushed(b.engine, at.twin)
		return early == 13
	})
	if _, bytes, _ := grainengine.Pushed(b.engine, at.twin); bytes > 8<<20 || bytes < 7<<20 {
		t.Errorf("%d bytes are kept", bytes)
	}
	calls[3].Cancel()
	calls[11].Cancel() // whose argument was dropped
	set(at.twin, &at.twin.behind, false)
	got, err := r.noted.Call(ctx, g).Get(ctx)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%v\n%v", got, want, err)
	}
	nodetest.Eventually(t, "no argument is left", func() bool {
		early, bytes, due := grainengine.Pushed(b.engine, at.twin)
		return early == 0 && bytes == 0 && due == 0
	})
}

// TestPushedLast: calls wait for arguments that come later; those that end before are no trouble to it.
func TestPushedLast(t *testing.T) {
	r, a, b, ctx := apart(t)
	g := r.kind.Get("x")
	wants(t, ctx, r.add.Call(ctx, g, 1), 1)
	at := a.Peer(core.NodeKey{Node: "b", Incarnation: 1}).(*fakePeer)
	at.twin.mu.Lock()
	at.twin.slow = true
	at.twin.mu.Unlock()
	gone := r.big.Call(ctx, g, make([]byte, 100_000))
	f := r.big.Call(ctx, g, make([]byte, 200_000))
	unknown := r.big.Call(ctx, r.kind.Get("y"), make([]byte, 300_000)) // b is not where it is: the call is refused
	later := r.add.Call(ctx, g, 1)
	nodetest.Eventually(t, "the heads have come", func() bool {
		_, _, due := grainengine.Pushed(b.engine, at.twin)
		return due >= 2
	})
	gone.Cancel()
	at.twin.mu.Lock()
	at.twin.slow = false
	at.twin.cond.Broadcast()
	at.twin.mu.Unlock()
	wants(t, ctx, f, 200_000)
	wants(t, ctx, later, 2)
	wants(t, ctx, unknown, 300_000)
	nodetest.Eventually(t, "no argument is left", func() bool {
		early, bytes, due := grainengine.Pushed(b.engine, at.twin)
		return early == 0 && bytes == 0 && due == 0
	})
}
