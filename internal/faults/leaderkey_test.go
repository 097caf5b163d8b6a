package faults_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestLeaderKeysDeleted: an operator deletes the keys of all leaders in Consul. Every shard has a leader again, though
// nobody calls anything.
func TestLeaderKeysDeleted(t *testing.T) {
	server := testkit.Consul(t, onDisk()...)
	p := testkit.Processes(t, 2, testkit.CPU(1), testkit.TTL(10*time.Second), testkit.On(server),
		testkit.Config(system.Config{Cluster: &system.ClusterConfig{Name: "meddled"}}))
	kv := keyspace(t, server, "meddled")
	// A shard that is handed over has no key for a moment, or no session in it: such a shard is not among those below, or is handed
	// over while its key is deleted. So what is compared is the keys that were deleted, one by one, and not how many there are.
	var deleted map[string]uint64 // the CreateIndex of each
	testkit.Eventually(t, time.Minute, "both nodes lead shards", func() bool {
		leaders, _, err := kv.List(t.Context(), shardlog.LeadersPrefix, store.Consistent)
		if err != nil {
			t.Fatal(err)
		}
		deleted = map[string]uint64{}
		sessions := map[string]bool{}
		for _, l := range leaders {
			deleted[l.Key] = l.Create
			sessions[l.Session] = true
		}
		return len(sessions) == 2
	})
	from := time.Now()
	for key := range deleted {
		if _, err := kv.Txn(t.Context(), []store.Op{store.Delete(key)}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, time.Minute, "every shard whose leader's key was deleted has a leader again", func() bool {
		now, _, err := kv.List(t.Context(), shardlog.LeadersPrefix, store.Consistent)
		if err != nil {
			t.Fatal(err)
		}
		led := map[string]bool{}
		for _, l := range now {
			led[l.Key] = l.Session != "" && l.Create > deleted[l.Key]
		}
		for key := range deleted {
			if !led[key] {
				return false
			}
		}
		return true
	})
	figure(t, "all %d leaders' keys deleted: each shard led again after %v", len(deleted), time.Since(from).Round(time.Millisecond))
	p.Ready()
}
