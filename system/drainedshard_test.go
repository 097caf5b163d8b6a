package system_test

import (
	"context"
	"strings"
	"testing"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/flaky"
	"github.com/raysys/raysys/system"
)

// TestDrainedNodeTakesNoShard: a node that has drained leads nothing again, not even while its view says that it should, since
// the word of its own drain has not come back to it.
func TestDrainedNodeTakesNoShard(t *testing.T) {
	f := newFleet(t)
	kv := flaky.Wrap(f.kv)
	n, _ := f.join("w", system.Worker, func(c *system.Config) { c.Cluster.Store = kv })
	eventually(t, "all shards are served", func() bool { return system.Leads(n) == system.Shards(n) && system.Holds(n) == system.Shards(n) })
	closing, stop := context.WithCancel(context.Background())
	defer stop()
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Verb == "Watch" && strings.HasPrefix(c.Key, store.NodesPrefix) {
			<-closing.Done()
		}
		return flaky.None
	})
	// The watch that is under way ends with this change, and the next one hears of nothing.
	if _, err := f.kv.Txn(t.Context(), []store.Op{store.Set(store.NodesPrefix+"wake", nil)}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.kv.Txn(t.Context(), []store.Op{store.Delete(store.NodesPrefix + "wake")}); err != nil {
		t.Fatal(err)
	}
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks := system.Looks(n)
	if _, err := f.kv.Txn(t.Context(), []store.Op{store.Set(store.LeadersPrefix+"wake", nil)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has looked after its duties", func() bool { return system.Looks(n) > looks })
	system.Moved(n)
	leaders, _, err := f.kv.List(t.Context(), store.LeadersPrefix, store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	if len(leaders) > 1 || system.Leads(n) > 0 {
		t.Errorf("a drained node took %d shards again, and holds the keys of %d", system.Leads(n), len(leaders)-1)
	}
}
