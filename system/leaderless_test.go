package system_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
)

// TestKeyWithoutALeader: a node gets the keys of all shards, and the store is away before it is told so. Each shard is
// served once the store is back: by that node, or by one that joined meanwhile and comes first for it.
func TestKeyWithoutALeader(t *testing.T) {
	f := newFleet(t)
	blip := flaky.Wrap(f.kv)
	blip.Hook(func(c flaky.Call) flaky.Fault {
		switch {
		case slices.ContainsFunc(c.Ops, func(op store.Op) bool { return strings.HasPrefix(op.Key, shardlog.LeadersPrefix) }):
			return flaky.LoseAnswer
		case c.Verb == "Get" && strings.HasPrefix(c.Key, shardlog.LeadersPrefix):
			return flaky.Refuse
		}
		return flaky.None
	})
	w1, _ := f.join("w1", system.Worker, func(c *system.Config) { c.Cluster.Store = blip })
	eventually(t, "w1 has all keys", func() bool { return system.Holds(w1) == system.Shards(w1) })
	w2, _ := f.join("w2", system.Worker)
	eventually(t, "w1 knows w2", func() bool { _, known := system.Known(w1, "w2"); return known })
	if n := system.Leads(w1) + system.Leads(w2); n != 0 {
		t.Fatalf("%d shards are served: the test shows nothing", n)
	}
	blip.Hook(nil)
	eventually(t, "all shards are served", func() bool { return system.Leads(w1)+system.Leads(w2) == system.Shards(w1) })
	if system.Leads(w1) == 0 || system.Leads(w2) == 0 {
		t.Errorf("w1 leads %d, w2 %d", system.Leads(w1), system.Leads(w2))
	}
}
