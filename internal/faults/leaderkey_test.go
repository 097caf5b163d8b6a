package faults_test

import (
	"slices"
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
	// A key that is deleted while its shard is handed over is another matter: then a shard was seen without a leader for a minute.
	var leaders []store.Pair
	var since time.Time // when they changed last
	testkit.Eventually(t, time.Minute, "both nodes lead shards, and none was handed over for two seconds", func() bool {
		was := leaders
		var err error
		if leaders, _, err = kv.List(t.Context(), shardlog.LeadersPrefix, store.Consistent); err != nil {
			t.Fatal(err)
		}
		sessions := map[string]bool{}
		for _, l := range leaders {
			sessions[l.Session] = true
		}
		if !slices.EqualFunc(was, leaders, func(a, b store.Pair) bool { return a.Key == b.Key && a.Create == b.Create }) {
			since = time.Now()
		}
		return len(sessions) == 2 && time.Since(since) > 2*time.Second
	})
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
