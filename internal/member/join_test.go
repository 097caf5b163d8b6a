package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

// TestNameTaken: a second live node of a name is refused, and told by whom.
func TestNameTaken(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		_, cfg := c.prepare("a")
		cfg.Self.Address = "elsewhere:1"
		_, err := member.Join(context.Background(), cfg)
		if !errors.Is(err, member.ErrNameTaken) {
			t.Fatalf("the second a: %v", err)
		}
		for _, want := range []string{"a:1", fmt.Sprint("incarnation ", c.member("a").Incarnation())} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		c.pass(3 * ttl)
		if s := c.member("a").State(); s != member.Active {
			t.Errorf("the first a is %v", s)
		}
	})
}

// TestDeadNamesakeIsReplaced: at once when its process is provably dead, otherwise once its session is over.
func TestDeadNamesakeIsReplaced(t *testing.T) {
	for _, x := range []struct {
		name, address string
		at            time.Duration
	}{
		{"same address", "a:1", 0},
		{"same host refuses", "a:2", 0},
		{"same address, no answer", "a:1", 0},
		{"another host refuses", "elsewhere:1", 4 * time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.join("a", "b")
				old := c.member("a").Incarnation()
				c.pass(time.Second)
				c.mu.Lock()
				c.node("a").dead = time.Now()
				c.mu.Unlock()
				c.member("a").Abandon()
				began := time.Now()
				n := c.joinAs("a", func(cfg *member.Config) {
					cfg.Self.Address = x.address
					if strings.Contains(x.name, "no answer") {
						cfg.Prober = nobody{}
					}
				})
				if took := time.Since(began); took < x.at || took > x.at+2*time.Second {
					t.Errorf("it took %v", took)
				}
				if n.m.Incarnation() <= old {
					t.Errorf("incarnation %d follows %d", n.m.Incarnation(), old)
				}
				if node, ok := c.member("b").View().Node("a"); !ok || node.Incarnation != n.m.Incarnation() {
					t.Errorf("b sees %+v", node)
				}
			})
		})
	}
}

// TestSilentNamesake: one that renews but cannot be asked keeps its name.
func TestSilentNamesake(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		_, cfg := c.prepare("a")
		cfg.Self.Address = "elsewhere:1"
		cfg.Prober = nobody{}
		_, err := member.Join(context.Background(), cfg)
		if !errors.Is(err, member.ErrNameTaken) {
			t.Errorf("the second a: %v", err)
		}
		if s := c.member("a").State(); s != member.Active {
			t.Errorf("the first a is %v", s)
		}
	})
}

// nobody can be reached.
type nobody struct{}

func (nobody) Linked(raysys.NodeID, uint64) bool           { return false }
func (nobody) Silence(raysys.NodeID) (time.Duration, bool) { return 0, false }
func (nobody) Relayed(raysys.NodeID) bool                  { return false }

func (nobody) Answered(raysys.NodeID, uint64) (time.Duration, bool) { return 0, false }
func (nobody) Withhold(raysys.NodeID, uint64, bool)                 {}
func (nobody) PingBriskly([]member.Node)                            {}
func (nobody) Redial(ctx context.Context, _ member.Node) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestJoinWaitsForTheStore: it says so at each attempt, with pauses that grow, and joins when the store is there.
func TestJoinWaitsForTheStore(t *testing.T) {
	virtual(t, func(c *cluster) {
		n, cfg := c.prepare("a")
		var attempts []member.Attempt
		cfg.OnAttempt = func(a member.Attempt) { attempts = append(attempts, a) }
		n.kv.Down(true)
		up := time.AfterFunc(30*time.Second, func() { n.kv.Down(false) })
		defer up.Stop()
		m, err := member.Join(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.add(n, m)
		near(t, "lease", m.Lease(), ttl)
		if len(attempts) < 10 || len(attempts) > 60 {
			t.Errorf("%d attempts in 30 s", len(attempts))
		}
		for i, a := range attempts {
			if a.N != i+1 || !errors.Is(a.Err, store.ErrUnavailable) || !strings.Contains(a.Err.Error(), "node a") {
				t.Errorf("attempt %d is %+v", i+1, a)
			}
			if a.Wait > ttl/10 || i > 0 && a.Wait < attempts[i-1].Wait {
				t.Errorf("after attempt %d it waits for %v", i+1, a.Wait)
			}
		}

		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		down, cfg := c.prepare("b")
		down.kv.Down(true)
		began := time.Now()
		_, err = member.Join(ctx, cfg)
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestJoinThroughFaults: whichever call's answer is lost, one node comes of it.
func TestJoinThroughFaults(t *testing.T) {
	for _, fault := range []flaky.Fault{flaky.LoseAnswer, flaky.LoseCall, flaky.Refuse} {
		for at := range 12 {
			t.Run(fmt.Sprint(fault, " at ", at), func(t *testing.T) {
				virtual(t, func(c *cluster) {
					n, cfg := c.prepare("a")
					var calls atomic.Int32
					n.kv.Hook(func(flaky.Call) flaky.Fault {
						if calls.Add(1) == int32(at+1) {
							return fault
						}
						return flaky.None
					})
					m, err := member.Join(context.Background(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					c.add(n, m)
					p, err := c.kv.Get(context.Background(), "nodes/a")
					if err != nil || p.Create != m.Incarnation() || p.Session != m.Session() {
						t.Errorf("nodes/a is %+v, %v; the member has incarnation %d, session %s", p, err, m.Incarnation(), m.Session())
					}
					c.pass(3 * ttl)
					if s := m.State(); s != member.Active {
						t.Errorf("it is %v", s)
					}
				})
			})
		}
	}
}

// TestJoinAnotherStore: a store without this cluster is refused, and nothing is written to it.
func TestJoinAnotherStore(t *testing.T) {
	virtual(t, func(c *cluster) {
		_, cfg := c.prepare("a")
		c.set("config", `{"id":"other"}`)
		if _, err := member.Join(context.Background(), cfg); !errors.Is(err, raysys.ErrStoreReplaced) {
			t.Errorf("another cluster: %v", err)
		}
		if _, err := c.kv.Txn(context.Background(), []store.Op{store.Delete("config")}); err != nil {
			t.Fatal(err)
		}
		if _, err := member.Join(context.Background(), cfg); !errors.Is(err, raysys.ErrStoreReplaced) {
			t.Errorf("an empty store: %v", err)
		}
		if keys := c.keys("nodes/"); len(keys) > 0 {
			t.Errorf("it wrote %v", keys)
		}
	})
}

// TestNumberVotedOutBefore: a store that was restored may give a number again that a vote names; it is not used.
func TestNumberVotedOutBefore(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		next := c.member("a").Incarnation() + 2 // one change is the vote, the next one is the join
		c.set(fmt.Sprint("evict/", next), `{"v":1}`)
		c.join("b")
		if got := c.member("b").Incarnation(); got <= next {
			t.Errorf("b has incarnation %d, %d was to be avoided", got, next)
		}
		c.pass(ttl)
		if s := c.member("b").State(); s != member.Active {
			t.Errorf("b is %v", s)
		}
	})
}

// TestAbandonedKey: a key that nobody holds, of an operator's making, is no node.
func TestAbandonedKey(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.set("nodes/a", "junk")
		p, err := c.kv.Get(context.Background(), "nodes/a")
		if err != nil {
			t.Fatal(err)
		}
		c.join("a")
		if got := c.member("a").Incarnation(); got <= p.Create {
			t.Errorf("incarnation %d is the junk's", got)
		}
	})
}

func TestBadConfig(t *testing.T) {
	join := func(change func(*member.Config)) error {
		cfg := member.Config{
			KV: nothing{}, Cluster: "test", ClusterID: "x",
			Self: member.Info{ID: "a", Address: "a:1"},
		}
		change(&cfg)
		_, err := member.Join(t.Context(), cfg)
		return err
	}
	for name, change := range map[string]func(*member.Config){
		"no KV":             func(c *member.Config) { c.KV = nil },
		"no id":             func(c *member.Config) { c.ClusterID = "" },
		"shards":            func(c *member.Config) { c.Shards = -1 },
		"ttl":               func(c *member.Config) { c.TTL = -1 },
		"suspicion":         func(c *member.Config) { c.SuspectAfter = time.Minute },
		"no name":           func(c *member.Config) { c.Self.ID = "" },
		"a slash":           func(c *member.Config) { c.Self.ID = "a/b" },
		"a long name":       func(c *member.Config) { c.Self.ID = raysys.NodeID(strings.Repeat("x", 200)) },
		"no address":        func(c *member.Config) { c.Self.Address = "" },
		"any host":          func(c *member.Config) { c.Self.Address = ":7000" },
		"unspecified host":  func(c *member.Config) { c.Self.Address = "0.0.0.0:7000" },
		"unspecified host6": func(c *member.Config) { c.Self.Address = "[::]:7000" },
		"role":              func(c *member.Config) { c.Self.Role = "chief" },
		"resources":         func(c *member.Config) { c.Self.Resources.CPU = -1 },
	} {
		if err := join(change); !errors.Is(err, raysys.ErrBadOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// nothing panics on use: a bad Config is refused before anything is asked.
type nothing struct{ store.KV }
