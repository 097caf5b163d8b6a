package testkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// incarnation is that of node i in the view of the test's own node, 0 when it is not there.
func incarnation(t testing.TB, c *testkit.Cluster, i int) uint64 {
	t.Helper()
	st, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range st.Nodes {
		if n.Name == c.Name(i) {
			return n.Incarnation
		}
	}
	return 0
}

// inVirtual runs a test of three nodes in virtual time.
func inVirtual(t *testing.T, f func(t testing.TB, k *testkit.Kit, c *testkit.Cluster)) {
	t.Helper()
	testkit.Virtual(t, func(k *testkit.Kit) { f(k.T(), k, k.Cluster()) }, testkit.Table(table), testkit.Nodes(3))
}

func TestKillAndRestart(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 2)
		if n, err := add.Call(ctx, counters.Get(key), 5).Get(ctx); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		was := incarnation(t, c, 2)
		c.Kill(2)
		c.Kill(2) // it is dead already
		if c.Node(2) != nil {
			t.Error("a killed node has a Node")
		}
		from := time.Now()
		if h, err := home.Call(ctx, counters.Get(key)).Get(ctx); h == "n2" || err != nil {
			t.Error(h, err)
		}
		if took := time.Since(from); took > long.Form(5*time.Second, time.Second) { // a death that is proven does not wait for the lease, of 10 s
			t.Errorf("the grain was back after %v", took)
		}
		if n, err := add.Call(ctx, counters.Get(key), 5).Get(ctx); n != 10 || err != nil {
			t.Error(n, err)
		}
		c.Restart(2)
		c.Ready()
		if now := incarnation(t, c, 2); now <= was {
			t.Errorf("incarnation %d after %d", now, was)
		}
		if livingOn(k, t, 2) == "" {
			t.Error("nothing lives on the restarted node")
		}
	})
}

func TestRestartOfARunningNode(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		for i := range 3 {
			c.Restart(i + 1)
		}
		c.Ready()
		if n, err := add.Call(k.Context(), counters.Get("a"), 1).Get(k.Context()); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestPauseBeyondTheLease(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 1)
		if n, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		was := incarnation(t, c, 1)
		c.Pause(1)
		from := time.Now()
		var n int
		var err error
		for n != 2 {
			n, err = add.With(raysys.Deadline(time.Second)).Call(ctx, counters.Get(key), 1).Get(ctx)
			if err == nil && n != 2 {
				t.Fatalf("the counter says %d", n)
			}
			if time.Since(from) > time.Minute {
				t.Fatal(err)
			}
		}
		// An evicted node's session ends a lease after the vote (rule C17); its peers heard it last a ping ago.
		most := long.Form(40*time.Second, 22*time.Second)
		if took := time.Since(from); took < 9*time.Second || took > most {
			t.Errorf("the grain was back after %v, want 9 s to %v", took, most)
		}
		c.Resume(1)
		k.Advance(5 * time.Second)
		c.Ready()
		if now := incarnation(t, c, 1); now <= was {
			t.Errorf("incarnation %d after %d", now, was)
		}
	})
}

// deaf runs for 3 s, whoever cancels it.
var deaf = tasks.Define0In(table, "deaf", func(context.Context) (int, error) {
	<-time.After(3 * time.Second)
	return 0, nil
})

// TestKillWhileClosing: virtual time goes on when a node is killed that is being closed because it was fenced.
func TestKillWhileClosing(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		node := c.Node(3)
		deaf.Go(node.Context(context.Background()))
		k.Advance(time.Second)
		c.ExpireSession(3)
		<-node.Done()
		synctest.Wait() // it closes, and waits for the task
		c.Kill(3)
		k.Advance(10 * time.Second)
	})
}

func TestExpireSession(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		was, node := incarnation(t, c, 3), c.Node(3)
		c.ExpireSession(3)
		<-node.Done()
		if !errors.Is(node.Err(), raysys.ErrFenced) {
			t.Errorf("the node ended with %v", node.Err())
		}
		k.Advance(time.Second)
		c.Ready()
		if now := incarnation(t, c, 3); now <= was {
			t.Errorf("incarnation %d after %d", now, was)
		}
	})
}

func TestDelay(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 1)
		c.Delay(0, 1, 100*time.Millisecond, 0)
		from := time.Now()
		if _, err := home.Call(ctx, counters.Get(key)).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(from); took < 200*time.Millisecond || took >= 400*time.Millisecond {
			t.Errorf("a round trip took %v", took)
		}
		c.Heal()
		k.Advance(time.Second) // what was delayed before keeps what comes behind it
		from = time.Now()
		if _, err := home.Call(ctx, counters.Get(key)).Get(ctx); err != nil || time.Since(from) >= 100*time.Millisecond {
			t.Errorf("after Heal it took %v: %v", time.Since(from), err)
		}
	})
}

func TestFrameRules(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key, other := livingOn(k, t, 1), livingOn(k, t, 2)
		c.Drop(1, func(f testkit.Frame) bool { return f.From == "test" && f.To == "n1" })
		_, err := home.With(raysys.Deadline(3*time.Second)).Call(ctx, counters.Get(key)).Get(ctx)
		if !errors.Is(err, raysys.ErrDeadline) {
			t.Errorf("a call that was dropped ended in %v", err)
		}
		if _, err := home.Call(ctx, counters.Get(other)).Get(ctx); err != nil {
			t.Error(err)
		}
		c.Heal()
		c.Duplicate(1, nil)
		for i := range 20 {
			if h, err := home.Call(ctx, counters.Get(key)).Get(ctx); h != "n1" || err != nil {
				t.Fatal(h, err)
			}
			if n, err := sum.Go(ctx, box{Parts: []int{i, 1}}).Get(ctx); n != i+1 || err != nil {
				t.Fatal(n, err)
			}
		}
		c.Heal()
		c.Reorder(0.5, nil)
		var refs []raysys.Ref[int]
		for i := range 200 {
			refs = append(refs, sum.Go(ctx, box{Parts: []int{i, 1}}))
		}
		for i, r := range refs {
			if n, err := r.Get(ctx); n != i+1 || err != nil {
				t.Fatal(n, err)
			}
		}
	})
}

func TestStoreDown(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 1)
		was := incarnation(t, c, 1)
		c.StoreDown()
		k.Advance(time.Minute)
		if _, err := home.Call(ctx, counters.Get(key)).Get(ctx); !errors.Is(err, raysys.ErrSuspended) {
			t.Errorf("a named grain answered without a lease: %v", err)
		}
		if n, err := sum.Go(ctx, box{Parts: []int{1, 2}}).Get(ctx); n != 3 || err != nil {
			t.Error(n, err)
		}
		c.StoreUp()
		k.Advance(2 * time.Second)
		if n, err := add.Call(ctx, counters.Get(key), 4).Get(ctx); n != 4 || err != nil {
			t.Error(n, err)
		}
		if now := incarnation(t, c, 1); now != was {
			t.Error("the node had to start over")
		}
	})
}

func TestStoreDownForOneNode(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		was := incarnation(t, c, 2)
		c.StoreDown(2)
		k.Advance(time.Minute)
		if now := incarnation(t, c, 2); now != 0 {
			t.Errorf("the node keeps its session: %d", now)
		}
		c.StoreUp(2)
		k.Advance(5 * time.Second)
		c.Ready()
		if now := incarnation(t, c, 2); now <= was {
			t.Errorf("incarnation %d after %d", now, was)
		}
	})
}

func TestStoreSlow(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 1)
		c.StoreSlow(time.Second)
		from := time.Now()
		if _, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(from); took < time.Second {
			t.Errorf("a commit took %v", took)
		}
	})
}

func TestReplaceStore(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		var nodes []*system.Node
		for i := range 4 {
			nodes = append(nodes, c.Node(i))
		}
		c.ReplaceStore()
		for i, n := range nodes {
			select {
			case <-n.Done():
			case <-time.After(time.Minute):
				t.Fatalf("node %d goes on", i)
			}
			if !errors.Is(n.Err(), raysys.ErrStoreReplaced) {
				t.Errorf("node %d ended with %v", i, n.Err())
			}
		}
		if _, err := sum.Go(k.Context(), box{}).Get(k.Context()); err == nil {
			t.Error("the driver goes on")
		}
	})
}

func TestClockJump(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 1)
		c.StoreDown(1) // or the jump would be healed by the next renewal at once
		c.ClockJump(1, time.Hour)
		if _, err := home.Call(ctx, counters.Get(key)).Get(ctx); !errors.Is(err, raysys.ErrSuspended) {
			t.Errorf("a named grain answered without a lease: %v", err)
		}
		c.StoreUp(1)
		k.Advance(time.Second)
		if _, err := home.Call(ctx, counters.Get(key)).Get(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestDrain(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 1)
		if _, err := add.Call(ctx, counters.Get(key), 7).Get(ctx); err != nil {
			t.Fatal(err)
		}
		c.Drain(1)
		if c.Node(1) != nil {
			t.Error("a drained node has a Node")
		}
		if n, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); n != 8 || err != nil {
			t.Error(n, err)
		}
		c.Restart(1)
		c.Ready()
	})
}

// TestLastWords: the answers of a node that drained and left are heard, though the news of its end is faster than they
// are.
func TestLastWords(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		ctx := k.Context()
		key := livingOn(k, t, 1)
		if _, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		c.Delay(0, 1, 300*time.Millisecond, 0)
		f := add.Call(ctx, counters.Get(key), 1)
		k.Advance(350 * time.Millisecond) // it is answered, and the answer on its way
		if raysys.PhaseOf(f) != raysys.PhasePending {
			t.Fatal("the answer is here: the test tests nothing")
		}
		c.Drain(1)
		if n, err := f.Get(ctx); n != 2 || err != nil {
			t.Error(n, err)
		}
		c.Heal()
		c.Restart(1)
		c.Ready()
	})
}

func TestSplitAndMend(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		one := [4]uint64{}
		for i := range one {
			one[i] = incarnation(t, c, i)
		}
		c.Split([]int{1}, []int{2, 3})
		k.Advance(5 * time.Second)
		c.Mend(1, 2)
		c.Mend(1, 3)
		k.Advance(time.Minute)
		c.Ready()
		for i := range one {
			if now := incarnation(t, c, i); now != one[i] {
				t.Errorf("node %d: incarnation %d after %d", i, now, one[i])
			}
		}
	})
}
