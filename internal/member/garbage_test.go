package member_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

// reports counts what members say of garbage, by key.
func (c *cluster) countGarbage(into map[string]int) func(*member.Config) {
	return func(cfg *member.Config) {
		next := cfg.OnEvent
		cfg.OnEvent = func(e member.Event) {
			next(e)
			if e.Kind == member.Garbage {
				c.mu.Lock()
				defer c.mu.Unlock()
				into[string(cfg.Self.ID)+" "+strings.Fields(e.Err.Error())[1]]++
			}
		}
	}
}

// TestGarbageInTheLedger: evictions that cannot be read, or were deleted, do not keep a silent node in the cluster, and those of
// the last lease count for the half nevertheless, also with members that had not heard of them.
func TestGarbageInTheLedger(t *testing.T) {
	virtual(t, func(c *cluster) {
		said := map[string]int{}
		for _, name := range strings.Fields("a b c d e f g") {
			c.joinAs(name, c.countGarbage(said))
		}
		evict := func(by, name string) error {
			victim, ok := c.member(by).View().Node(raysys.NodeID(name))
			if !ok {
				t.Fatalf("%s is gone", name)
			}
			_, err := member.Evict(context.Background(), c.member(by), victim)
			return err
		}
		c.set("evictions", "{not json")
		if err := evict("a", "e"); err != nil {
			t.Errorf("garbage in evictions keeps every node in the cluster: %v", err)
		}
		for _, name := range []string{"f", "g"} {
			if err := evict("a", name); err != nil {
				t.Errorf("%s, of the first half: %v", name, err)
			}
		}
		for by, garbage := range map[string]string{"b": "[]", "c": "{}", "d": ""} { // none of them was told of the three
			c.set("evictions", garbage)
			if garbage == "" {
				if _, err := c.kv.Txn(context.Background(), []store.Op{store.Delete("evictions")}); err != nil {
					t.Fatal(err)
				}
			}
			if err := evict(by, "a"); !errors.Is(err, member.ErrHalf) {
				t.Fatalf("evictions was overwritten with %q, and %s evicted the fourth of seven within one lease: %v", garbage, by, err)
			}
		}
		c.set("evictions", "[]")
		if err := evict("a", "b"); !errors.Is(err, member.ErrHalf) {
			t.Errorf("garbage in evictions made a forget whom it had evicted itself: %v", err)
		}
		c.pass(ttl / 2) // a renewal of each
		p, err := c.kv.Get(context.Background(), "evictions")
		if err != nil || !strings.HasPrefix(string(p.Value), `{"v":1,`) || !strings.Contains(string(p.Value), `"node":"e"`) || !strings.Contains(string(p.Value), `"node":"g"`) {
			t.Errorf("evictions is %s: no member wrote anew what had happened: %v", p.Value, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if said["a evictions:"] != 2 {
			t.Errorf("a reported two pieces of garbage so often: %v", said)
		}
	})
}

// TestRecordWithoutSession: what no session holds is no member, whatever it says; it goes, and is reported once.
func TestRecordWithoutSession(t *testing.T) {
	virtual(t, func(c *cluster) {
		said := map[string]int{}
		c.joinAs("a", c.countGarbage(said))
		c.joinAs("b", c.countGarbage(said))
		forged, err := member.Encode(member.Info{ID: "ghost", Address: "ghost:1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.node("a").kv.Down(true) // so that b's view is looked at before a or b has removed it
		c.set("nodes/ghost", string(forged))
		c.settle()
		c.node("a").kv.Down(false)
		c.pass(ttl / 2)
		for _, of := range []string{"a", "b"} {
			v := c.member(of).View()
			if got := c.names(of); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("%s counts a record that no session holds: members are %v", of, got)
			}
			for shard := range shards {
				if id, _ := v.Preferred(shard); id == "ghost" {
					t.Fatalf("%s gives shard %d to a record that no session holds", of, shard)
				}
			}
		}
		if got := c.keys("nodes/"); !slices.Equal(got, []string{"nodes/a", "nodes/b"}) {
			t.Errorf("nodes are %v: the record that no session holds was not removed", got)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if said["b nodes/ghost:"] != 1 {
			t.Errorf("the record was to be reported once: %v", said)
		}
	})
}

// TestGarbageInARecord: a member whose record somebody overwrote stays one, and writes it anew.
func TestGarbageInARecord(t *testing.T) {
	for name, garbage := range map[string]string{
		"not JSON": "garbage", "empty": "{}", "no address": `{"v":1,"id":"b"}`,
		"CPUs without end": `{"v":1,"id":"b","address":"b:1","resources":{"cpu":1e300}}`,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.join("a", "b")
				was := c.member("b").Incarnation()
				c.set("nodes/b", garbage)
				c.settle()
				if n, ok := c.member("a").View().Node("b"); !ok || n.Incarnation != was || n.Address != "b:1" {
					t.Errorf("a lost sight of b because of its record: %+v", n)
				}
				c.pass(ttl)
				p, err := c.kv.Get(context.Background(), "nodes/b")
				if err != nil {
					t.Fatal(err)
				}
				if n, _, err := member.Decode(p); err != nil || n.Address != "b:1" || c.member("b").State() != member.Active {
					t.Errorf("b's record is %s: it did not write it anew: %v", p.Value, err)
				}
			})
		})
	}
}

// TestGarbageAmongVotes: a key under evict/ that names no incarnation goes.
func TestGarbageAmongVotes(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.set("evict/garbage", "garbage")
		c.join("a", "b")
		c.pass(ttl)
		if got := c.keys("evict/"); len(got) > 0 {
			t.Errorf("%v is left", got)
		}
	})
}
