package system_test

import (
	"context"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
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
	deaf := make(chan struct{}, 1)
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Verb == "Watch" && strings.HasPrefix(c.Key, shardlog.NodesPrefix) {
			select {
			case deaf <- struct{}{}:
			default:
			}
			<-closing.Done()
		}
		return flaky.None
	})
	// The watch that is under way ends with this change, and the next one hears of nothing. The drain is announced after that.
	if _, err := f.kv.Txn(t.Context(), []store.Op{store.Set(shardlog.NodesPrefix+"wake", nil)}); err != nil {
		t.Fatal(err)
	}
	<-deaf
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it knows that its shards have no leader", func() bool { return system.Holds(n) == 0 || system.Leads(n) > 0 })
	// A look that follows one which began after that shows that this one is through.
	looks := system.Looks(n)
	eventually(t, "it has looked after its duties", func() bool { system.Poke(n); return system.Looks(n) >= looks+3 })
	system.Moved(n)
	leaders, _, err := f.kv.List(t.Context(), shardlog.LeadersPrefix, store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, p := range leaders {
		if p.Session != "" {
			held++
		}
	}
	if held > 0 || system.Leads(n) > 0 {
		t.Errorf("a drained node took %d shards again, and holds the keys of %d", system.Leads(n), held)
	}
}
