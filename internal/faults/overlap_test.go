package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
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
					case <-time.After(100 * time.Millisecond):
					}
					if node := c.Node(i); node != nil {
						ctx := node.Context(context.Background())
						_, _ = plainAdd.With(raysys.Deadline(time.Second)).Call(ctx, plains.Get(fmt.Sprint(prefix, n%20)), 1).Get(ctx)
					}
				}
			})
		}
		k.Advance(5 * time.Second)
		rounds := long.Form(6, 60)
		seen, byKind := 0, map[string]int{}
		var windows spread
		const byHand = "its session ended by hand"
		for i := 0; i < rounds || byKind[byHand] == 0 && i < 60; i++ { // a victim notices within a second, and a round may show none
			victim, kind := i%c.Size()+1, ""
			switch i % 3 {
			case 0: // everybody but the store, for which it goes on
				kind = "cut off from its peers"
				for j := range c.Size() + 1 {
					if j != victim {
						c.Cut(victim, j)
					}
				}
			case 1:
				kind = "cut off from the store"
				c.StoreDown(victim)
			case 2: // the same, and an operator ends its session, which the lease trusts
				kind = byHand
				c.StoreDown(victim)
				c.ExpireSession(victim)
			}
			k.Advance(3 * ttl)
			c.Heal()
			k.Advance(ttl)
			windows = nil
			for _, o := range plainLives.Overlaps() {
				if strings.HasPrefix(o.Grain, "faults.plain/"+prefix) {
					windows = append(windows, o.Window)
				}
			}
			byKind[kind] += len(windows) - seen
			seen = len(windows)
		}
		close(stop)
		wg.Wait()
		figure(t, "plain grains that existed twice, in %d rounds or more of each: %v; TTL %v: %v", rounds/3, byKind, ttl, windows)
		if byKind[byHand] == 0 {
			t.Error("no grain existed twice: the test shows nothing")
		}
		if n := byKind["cut off from its peers"] + byKind["cut off from the store"]; n > 0 {
			t.Errorf("%d grains existed twice though the lease was over before others took over", n)
		}
		if windows.worst() > ttl {
			t.Errorf("a grain existed twice for %v, longer than a lease", windows.worst())
		}
	}, testkit.Nodes(4), testkit.TTL(ttl))
}
