package system_test

import (
	"testing"

	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
)

// TestLeaderKeysMeddledWith: whatever somebody does to the keys of the leaders, every shard is served again under a key of its
// own, without a call that needs it.
func TestLeaderKeysMeddledWith(t *testing.T) {
	for name, meddle := range map[string]func(key string) []store.Op{
		"deleted":     func(key string) []store.Op { return []store.Op{store.Delete(key)} },
		"overwritten": func(key string) []store.Op { return []store.Op{store.Set(key, []byte("garbage"))} },
		"nobody's":    func(key string) []store.Op { return []store.Op{store.Delete(key), store.Set(key, []byte("garbage"))} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			w1, _ := f.join("w1", system.Worker)
			w2, _ := f.join("w2", system.Worker)
			served := func() bool {
				return system.Leads(w1)+system.Leads(w2) == system.Shards(w1) && system.Leads(w1) == system.Holds(w1) &&
					system.Leads(w2) == system.Holds(w2) && system.Astray(w1) == 0 && system.Astray(w2) == 0
			}
			eventually(t, "all shards are served where they belong: no key moves any more", served)
			before := map[string]uint64{}
			for n := range system.Shards(w1) {
				key := shardlog.LeaderKey(n)
				p, err := f.kv.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				before[key] = p.Create
				if _, err := f.kv.Txn(t.Context(), meddle(key)); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "every shard has a leader under a new key: one whose key was meddled with can commit nothing", func() bool {
				for key, old := range before {
					p, err := f.kv.Get(t.Context(), key)
					if err != nil || p.Create == old || p.Modify != p.Create || p.Session == "" {
						return false
					}
				}
				return served()
			})
		})
	}
}
