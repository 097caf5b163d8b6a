package system_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/raysys/raysys/system"
)

// TestTwoProgramsInOneCluster: programs that define the same kinds share a cluster (rule C2). Each one's grains live on its own
// nodes, whichever program's node leads their shard, and keep States of their own.
func TestTwoProgramsInOneCluster(t *testing.T) {
	f := newFleet(t)
	of := func(ns string) func(*system.Config) { return func(c *system.Config) { c.Namespace = ns } }
	f.join("w1", system.Worker, of("one"))
	f.join("w2", system.Worker, of("two"))
	drivers := map[string]context.Context{}
	_, drivers["w1"] = f.join("d1", system.Driver, of("one"))
	_, drivers["w2"] = f.join("d2", system.Driver, of("two"))
	for round := 1; round <= 2; round++ {
		for i := range 40 { // of all shards about half are led by the other program's worker
			for worker, ctx := range drivers {
				key := fmt.Sprint("shared ", i)
				if at, err := home.Call(ctx, accounts.Get(key)).Get(ctx); err != nil || at != worker {
					t.Fatalf("the grain %q lives on %q, want %s: %v", key, at, worker, err)
				}
				if n, err := deposit.Call(ctx, accounts.Get(key), 1).Get(ctx); err != nil || n != round {
					t.Fatalf("the balance of %q at %s is %d after %d deposits: %v", key, worker, n, round, err)
				}
			}
		}
	}
}
