package testkit_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/testkit"
)

// till is a durable grain.
type till struct{ paid grains.State[int] }

// TestKeyOfADeadNode: the reply to a call with a key outlives the node whose driver made the call, and that of the grain, for
// the time of KeepReplies and no longer.
func TestKeyOfADeadNode(t *testing.T) {
	table := raysys.NewTable()
	var ran atomic.Int64
	tills := grains.DefineIn[till](table, "till", grains.Durable(), grains.KeepReplies(10*time.Minute), grains.IdleAfter(2*time.Minute))
	pay := grains.Method(tills, "pay", func(g *till, _ context.Context, n int) (int, error) {
		ran.Add(1)
		g.paid.Value += n
		return g.paid.Value, nil
	}).With(raysys.Key("order-17"))
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		ran.Store(0)
		g, drivers := tills.Get("x"), c.Node(2).Context(k.Context())
		if n, err := pay.Call(drivers, g, 5).Get(drivers); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		c.Kill(2)
		k.Advance(time.Minute) // what belonged to the node is reaped
		again := func(want int) {
			t.Helper()
			if n, err := pay.Call(k.Context(), g, 5).Get(k.Context()); n != want || err != nil {
				t.Errorf("the key gets %d, %v; want %d", n, err, want)
			}
		}
		again(5)
		k.Advance(6 * time.Minute) // the activation goes meanwhile
		again(5)
		if n := ran.Load(); n != 1 {
			t.Errorf("the method ran %d times for one key", n)
		}
		k.Advance(5 * time.Minute)
		again(10)
		again(10)
	}, testkit.Table(table), testkit.Nodes(3))
}

// TestKeyOfALongTurn: KeepReplies begins with the outcome of a call, also where the call took longer than that.
func TestKeyOfALongTurn(t *testing.T) {
	table := raysys.NewTable()
	tills := grains.DefineIn[till](table, "till", grains.Durable(), grains.KeepReplies(10*time.Minute))
	pay := grains.Method(tills, "pay", func(g *till, _ context.Context, n int) (int, error) {
		<-time.After(15 * time.Minute)
		g.paid.Value += n
		return g.paid.Value, nil
	}).With(raysys.Key("order-17"), raysys.NoDeadline())
	testkit.Virtual(t, func(k *testkit.Kit) {
		g := tills.Get("x")
		call := func(want int) {
			k.T().Helper()
			if n, err := pay.Call(k.Context(), g, 5).Get(k.Context()); n != want || err != nil {
				k.T().Errorf("the key gets %d, %v; want %d", n, err, want)
			}
		}
		call(5)
		k.Advance(9 * time.Minute)
		call(5)
		k.Advance(2 * time.Minute)
		call(10)
	}, testkit.Table(table), testkit.Nodes(2))
}

// TestManyKeysOfOneGrain: a grain that is called with 20,000 keys refuses none of them. Each call that is made again with its key gets
// its outcome, or hears that it has counted, also after the grain's node has died.
func TestManyKeysOfOneGrain(t *testing.T) {
	table := raysys.NewTable()
	tills := grains.DefineIn[till](table, "till", grains.Durable())
	pay := grains.Method(tills, "pay", func(g *till, _ context.Context, n int) (int, error) {
		g.paid.Value += n
		return g.paid.Value, nil
	})
	read := grains.Method0(tills, "read", func(g *till, _ context.Context) (int, error) { return g.paid.Value, nil }).ReadOnly()
	k := testkit.New(t, testkit.Table(table), testkit.Nodes(3), testkit.Loose())
	ctx, g := k.Context(), tills.Get("x")
	const all, batch = 20_000, 500
	began := time.Now()
	call := func(i int) raysys.Ref[int] {
		return pay.With(raysys.Key("order-"+strconv.Itoa(i)), raysys.FirstMade(began)).Call(ctx, g, 1)
	}
	again := func(step int) {
		t.Helper()
		gone := 0
		for i := 0; i < all; i += step {
			switch _, err := call(i).Get(ctx); {
			case errors.Is(err, grains.ErrReplyGone):
				gone++
			case err != nil:
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if gone == 0 || gone > all/step*9/10 {
			t.Errorf("of %d calls that were made again %d have lost their replies", all/step, gone)
		}
		if n, err := read.Call(ctx, g).Get(ctx); n != all || err != nil {
			t.Fatalf("%d calls counted %d times: %v", all, n, err)
		}
	}
	for i := 0; i < all; {
		refs := make([]raysys.Ref[int], 0, batch)
		for ; len(refs) < batch; i++ {
			refs = append(refs, call(i))
		}
		for _, r := range refs {
			if _, err := r.Get(ctx); err != nil {
				t.Fatalf("before call %d: %v", i, err)
			}
		}
	}
	again(7)
	c := k.Cluster()
	rows, err := c.Node(1).Grains(ctx, inspect.GrainQuery{Kind: "till", Limit: 10})
	if err != nil || len(rows.Grains) != 1 || rows.Grains[0].Keys < all {
		t.Fatal(rows, err)
	}
	for i := 1; i <= 3; i++ {
		if c.Node(i).Name() == rows.Grains[0].Node {
			c.Kill(i)
		}
	}
	again(11)
}
