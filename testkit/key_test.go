package testkit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
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
