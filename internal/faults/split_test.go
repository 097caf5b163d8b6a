package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// incarnations are those of all nodes, as the test's own sees them.
func incarnations(t testing.TB, c *testkit.Cluster) map[string]uint64 {
	t.Helper()
	st, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, n := range st.Nodes {
		m[string(n.Name)] = n.Incarnation
	}
	return m
}

// plainOn returns a key of a plain grain that lives on node i.
func plainOn(t testing.TB, k *testkit.Kit, prefix string, i int) string {
	t.Helper()
	for n := range 1000 {
		key := fmt.Sprint(prefix, n)
		h, err := plainHost.Call(k.Context(), plains.Get(key)).Get(k.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Node == string(k.Cluster().Name(i)) {
			return key
		}
	}
	t.Fatalf("none of 1000 grains lives on node %d", i)
	return ""
}

// TestOneBrokenPairOfThree: n1 and n2 do not reach each other and both reach n3 and the store. Nobody is evicted, and
// calls between them go through the third.
func TestOneBrokenPairOfThree(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 10 * time.Second} { // testkit's in real time, and the default
		t.Run(ttl.String(), func(t *testing.T) { oneBrokenPairOfThree(t, ttl) })
	}
}

func oneBrokenPairOfThree(t *testing.T, ttl time.Duration) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		prefix := fmt.Sprintf("pair%d-", runs.Add(1))
		from, to := plainOn(t, k, prefix, 1), plainOn(t, k, prefix, 2)
		was := incarnations(t, c)
		c.Cut(1, 2)
		relayed, begin := 0, time.Now()
		var first time.Duration
		for time.Since(begin) < long.Form(time.Minute, 10*time.Minute) {
			h, err := reach.Call(k.Context(), plains.Get(from), to).Get(k.Context())
			switch {
			case err == nil && h.Node == "n2":
				if relayed++; relayed == 1 {
					first = time.Since(begin)
				}
			case relayed > 0:
				t.Fatalf("after %d relayed calls one ended with %v, %v", relayed, h, err)
			}
			pause(100 * time.Millisecond)
		}
		if relayed == 0 {
			t.Fatal("no call between the two came through")
		}
		now := incarnations(t, c)
		for name := range was {
			if was[name] != now[name] {
				t.Errorf("node %s: incarnation %d became %d: it was evicted or left", name, was[name], now[name])
			}
		}
		figure(t, "one broken pair of three, TTL %v: 0 evictions; %d calls relayed, the first %v after the cut", ttl, relayed, first.Round(time.Millisecond))
		c.Heal()
		k.Advance(20 * time.Second)
		if h, err := reach.Call(k.Context(), plains.Get(from), to).Get(k.Context()); err != nil || h.Node != "n2" {
			t.Errorf("after the pair was mended: %v, %v", h, err)
		}
	}, testkit.Nodes(3), testkit.TTL(ttl))
}

// TestSplitWithAStoreBetween: A and B do not reach each other and both reach the store. They do not kill each other: one of
// them leaves, which is the one that came later, and the other serves.
func TestSplitWithAStoreBetween(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		key := fmt.Sprintf("split%d", runs.Add(1))
		was := incarnations(t, c)
		if was["n1"] >= was["n2"] {
			t.Fatalf("n1 is meant to be the older: %v", was)
		}
		if n, err := add.Call(k.Context(), counters.Get(key), 5).Get(k.Context()); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		one, two := c.Node(1), c.Node(2)
		c.Cut(1, 2)
		c.Cut(0, 2) // nobody relays
		select {
		case <-two.Done():
		case <-one.Done():
			t.Fatalf("the older one left: %v", one.Err())
		case <-time.After(2 * time.Minute):
			t.Fatal("both stay, and do not reach each other")
		}
		k.Advance(time.Minute)
		if one.Err() != nil {
			t.Errorf("the older one ended too: %v", one.Err())
		}
		ctx := one.Context(context.Background())
		if n, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); n != 6 || err != nil {
			t.Errorf("the one that stays answers %d, %v", n, err)
		}
		c.Heal()
		k.Advance(time.Minute)
		c.Ready()
		if now := incarnations(t, c); now["n1"] != was["n1"] || now["n2"] <= was["n2"] {
			t.Errorf("incarnations %v became %v", was, now)
		}
		figure(t, "two nodes split with the store reachable by both: the later one left, the other served, 0 mutual evictions")
	}, testkit.Nodes(2))
}
