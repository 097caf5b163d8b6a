package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/testkit"
)

// TestOverlapOfPlainGrains measures what is allowed (rule C20): a plain grain may exist twice for a while, because the
// node that was evicted goes on until it notices. Clients on every node call it meanwhile.
func TestOverlapOfPlainGrains(t *testing.T) {
	ttl := 10 * time.Second
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		prefix := fmt.Sprintf("overlap%d-", runs.Add(1))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range c.Size() + 1 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
					}
					if node := c.Node(i); node != nil {
						ctx := node.Context(context.Background())
						_, _ = plainAdd.With(raysys.Deadline(time.Second)).Call(ctx, plains.Get(fmt.Sprint(prefix, n%20)), 1).Get(ctx)
					}
				}
			})
		}
		k.Advance(5 * time.Second)
		rounds := form(6, 60)
		for i := range rounds {
			victim := i%c.Size() + 1
			switch i % 3 {
			case 0: // everybody but the store, for which it goes on
				for j := range c.Size() + 1 {
					if j != victim {
						c.Cut(victim, j)
					}
				}
			case 1: // the store alone
				c.StoreDown(victim)
			case 2: // the same, and an operator ends its session, which the lease trusts
				c.StoreDown(victim)
				c.ExpireSession(victim)
			}
			k.Advance(3 * ttl)
			c.Heal()
			k.Advance(ttl)
		}
		close(stop)
		wg.Wait()
		var windows spread
		for _, o := range plainLives.Overlaps() {
			if len(o.Grain) > len("faults.plain/"+prefix) && o.Grain[:len("faults.plain/"+prefix)] == "faults.plain/"+prefix {
				windows = append(windows, o.Window)
			}
		}
		figure(t, "a plain grain existed twice in %d cases over %d rounds of isolation, TTL %v: %v", len(windows), rounds, ttl, windows)
		// Renewal comes every third of the TTL and tells an evicted node; one without a store stops at its lease's end.
		if len(windows) == 0 {
			t.Error("no grain existed twice: the test shows nothing")
		}
		if windows.worst() > ttl {
			t.Errorf("a grain existed twice for %v, longer than a lease", windows.worst())
		}
	}, testkit.Nodes(4), testkit.TTL(ttl))
}
