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
	before := map[string]uint64{}
	leaders, _, err := kv.List(t.Context(), shardlog.LeadersPrefix, store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	for _, l := range leaders {
		before[l.Key] = l.Create
		if _, err := kv.Txn(t.Context(), []store.Op{store.Delete(l.Key)}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, time.Minute, "every shard whose leader's key was deleted has a leader again", func() bool {
		now, _, err := kv.List(t.Context(), shardlog.LeadersPrefix, store.Consistent)
		if err != nil {
			t.Fatal(err)
		}
		led := 0
		for _, l := range now {
			if l.Session != "" && l.Create > before[l.Key] {
				led++
			}
		}
		return led == len(before)
	})
	figure(t, "all %d leaders' keys deleted: each shard led again after %v", len(before), time.Since(from).Round(time.Millisecond))
	p.Ready()
}
