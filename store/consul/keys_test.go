//go:build unix

package consul_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/store/storetest"
)

// oddNames are what nodes, clusters and prefixes may be called, and what Consul's rule for names refuses or nearly does.
var oddNames = []string{
	"gpu1.example.com", "prod.sh", "ops~1a2b", "A.PY", "a.js", "archive.tar.gz", "a.js,", "a,2ejs", "a,b", "a,", ",", "a b", "é%?&=#", "..a", "a..", "a...b", "x.",
	"~!@$^*()+=|\\{}[]:;\"'<>?`", "日本", "\x01", ".com", "a.comm",
}

// TestKeysWithinTheRule: the whole suite passes on a Consul that refuses names of keys as 1.22.0 does, also under a prefix
// that it refuses.
func TestKeysWithinTheRule(t *testing.T) {
	t.Parallel()
	strict := consultest.Strict(t, up(t, inMemory).Address())
	for _, below := range []string{"", "team é~1/prod.sh/"} {
		storetest.Run(t, func(*testing.T) storetest.Backend {
			cfg := consul.Config{Addresses: []string{strict}, Prefix: prefix() + below}
			return storetest.Backend{
				Open: func(t *testing.T) store.KV { return open(t, cfg) },
				TTL:  shortTTL,
				Gone: shortTTL + 20*time.Second,
			}
		})
	}
}

// TestOddNames: each name comes back as it was, alone, in lists in the order of the keys, and below a prefix that ends as it.
func TestOddNames(t *testing.T) {
	t.Parallel()
	address := up(t, inMemory).Address()
	strict := consultest.Strict(t, address)
	for _, within1 := range oddNames {
		cluster := strings.ReplaceAll(within1, "/", "-")
		if cluster == "" {
			continue
		}
		cfg := consul.Config{Addresses: []string{strict}, Prefix: prefix() + cluster + "/"}
		kv := open(t, cfg)
		sorted := slices.Sorted(slices.Values(oddNames))
		var ops []store.Op
		for _, name := range oddNames {
			ops = append(ops, store.Set("nodes/"+name, []byte(name)))
		}
		mustTxn(t, kv, ops...)
		pairs, index, err := kv.List(within(t), "nodes/", store.Consistent)
		if err != nil || len(pairs) != len(sorted) {
			t.Fatalf("below %q: %v, %v", cluster, pairs, err)
		}
		for i, name := range sorted {
			if p, err := kv.Get(within(t), "nodes/"+name); err != nil || string(p.Value) != name || p.Key != "nodes/"+name || pairs[i].Key != p.Key {
				t.Errorf("below %q: %q: %+v, %v; listed %q", cluster, name, p, err, pairs[i].Key)
			}
			want := slices.DeleteFunc(slices.Clone(sorted), func(n string) bool { return !strings.HasPrefix(n, name) })
			keys, err := kv.Keys(within(t), "nodes/"+name)
			if err != nil || len(keys) != len(want) || keys[0] != "nodes/"+want[0] {
				t.Errorf("below %q: keys that begin with %q: %q, %v", cluster, name, keys, err)
			}
		}
		mustTxn(t, kv, store.DeleteTree("nodes/a.js"), store.Delete("nodes/prod.sh"))
		if pairs, _, err := kv.Watch(within(t), "nodes/", index); err != nil || len(pairs) != len(sorted)-3 {
			t.Errorf("below %q: after deletions %v, %v", cluster, pairs, err)
		}
	}
}

// TestOldKeys: what an earlier version wrote under names that are escaped now is read: a node's record, and a cluster below a
// prefix. A Consul that refuses them says what to do.
func TestOldKeys(t *testing.T) {
	t.Parallel()
	address := up(t, inMemory).Address()
	client, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	cfg := consul.Config{Addresses: []string{address}, Prefix: prefix()}
	kv := open(t, cfg)
	ses, err := kv.NewSession(within(t), "x", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kv.Destroy(within(t), ses) }()
	const name = "nodes/gpu1.example.com"
	if ok, _, err := client.KV().Acquire(&api.KVPair{Key: cfg.Prefix + name, Value: []byte("old"), Session: ses}, nil); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if p, err := kv.Get(within(t), name); err != nil || p.Session != ses || p.Key != name {
		t.Errorf("%+v, %v", p, err)
	}
	if pairs, _, err := kv.List(within(t), "nodes/", store.Consistent); err != nil || len(pairs) != 1 || pairs[0].Key != name {
		t.Errorf("%+v, %v", pairs, err)
	}

	cfg.Prefix += "blue~1/"
	for _, key := range []string{"config", "log/00"} {
		if _, err := client.KV().Put(&api.KVPair{Key: cfg.Prefix + key, Value: []byte("old")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	kv = open(t, cfg)
	mustTxn(t, kv, store.Set("log/01", nil))
	if pairs, _, err := kv.List(within(t), "log/", store.Consistent); err != nil || len(pairs) != 2 {
		t.Errorf("%+v, %v", pairs, err)
	}
	cfg.Addresses = []string{consultest.Strict(t, address)}
	if _, _, err := open(t, cfg).List(within(t), "log/", store.Consistent); !errors.Is(err, store.ErrBadOp) || !strings.Contains(err.Error(), "DisableKVKeyValidation") {
		t.Errorf("a Consul that refuses the prefix: %v", err)
	}
}
