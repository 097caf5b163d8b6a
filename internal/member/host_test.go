package member_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
)

// preferred are the nodes that some shard should be led by, as of sees it.
func (c *cluster) preferred(of string) []string {
	var names []string
	for shard := range shards {
		if id, ok := c.member(of).View().Preferred(shard); ok && !slices.Contains(names, string(id)) {
			names = append(names, string(id))
		}
	}
	slices.Sort(names)
	return names
}

func (c *cluster) expectHosts(when, of string, want ...string) {
	c.t.Helper()
	if got := c.preferred(of); !slices.Equal(got, want) {
		c.t.Errorf("%s: %s gives shards to %v, want %v", when, of, got, want)
	}
}

// TestHostNeedsSessions: shards are for nodes that a majority of the hosts has a session with, and for all of those.
func TestHostNeedsSessions(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		c.expectHosts("alone", "a", "a")
		c.join("b", "c")
		c.expectHosts("three", "a", "a", "b", "c")
		c.part([]string{"d"}, []string{"a", "b"})
		c.join("d")
		c.pass(ttl / 2)
		c.expectHosts("one of three hosts has a session with d", "a", "a", "b", "c")
		if cand, joining := c.member("d").Candidacy(); !joining || cand.Linked != 1 || cand.Needed != 2 || len(cand.Missing) != 2 {
			t.Errorf("d says of itself: %v, %v", cand, joining)
		}
		c.heal()
		c.part([]string{"d"}, []string{"a"})
		c.pass(ttl / 10)
		c.expectHosts("two of three hosts have a session with d", "c", "a", "b", "c", "d")
		c.heal()
		c.part([]string{"a"}, []string{"b"})
		c.mu.Lock()
		c.relays = true
		c.mu.Unlock()
		c.pass(3 * ttl)
		c.expectHosts("a pair of hosts broke and is relayed", "c", "a", "b", "c", "d")
	})
}

// TestNobodyCanTalkToIt: a node that nobody hears comes again and again, and never takes a shard, nor a member with it.
func TestNobodyCanTalkToIt(t *testing.T) {
	for _, good := range []string{"a", "a b", "a b c", "a b c d e"} {
		t.Run(good, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				names := strings.Fields(good)
				c.join(names...)
				was := map[string]uint64{}
				for _, name := range names {
					was[name] = c.member(name).Incarnation()
				}
				c.part([]string{"x"}, names)
				for range 5 {
					c.join("x")
					for range 30 {
						c.pass(ttl / 10)
						c.expectHosts("while nobody hears x", names[0], names...)
					}
					if len(names) > 1 && c.member("x").State() == member.Active {
						t.Error("x was not heard for three leases and is still a member")
					}
				}
				for _, name := range names {
					if m := c.member(name); m.State() != member.Active || m.Incarnation() != was[name] {
						t.Errorf("%s is %v: a node that nobody can talk to had it evicted", name, m.Err())
					}
				}
			})
		})
	}
}

// TestHostIsSeniorToOneThatIsNone: of two that do not hear each other the host stays, though the other came earlier.
func TestHostIsSeniorToOneThatIsNone(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.part([]string{"x"}, []string{"a", "d"})
		c.join("d") // the host while x joins
		c.join("x")
		c.join("a") // comes after x, and becomes a host by d's word
		c.expectHosts("three", "d", "a", "d")
		c.tell([]string{"leave", "d"})
		c.settle()
		c.expectHosts("two", "a", "a")
		c.pass(4 * ttl)
		if err := c.member("a").Err(); err != nil {
			t.Errorf("the host was evicted by a node that never was one: %v", err)
		}
		if c.member("x").State() == member.Active {
			t.Error("a node that nobody hears is still a member")
		}
	})
}

// TestFirstHostThatNobodyHears: the first node of a cluster is its host, whoever it is; two that hear each other outvote it.
func TestFirstHostThatNobodyHears(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.part([]string{"x"}, []string{"a", "b"})
		c.join("x", "a", "b")
		c.expectHosts("at first", "a", "x")
		c.pass(4 * ttl)
		c.expectHosts("after four leases", "a", "a", "b")
		if c.member("x").State() == member.Active {
			t.Error("a host that nobody hears is still a member")
		}
	})
}

// TestHostOnAStaleCount: a node that counted before others became hosts does not become one by that count. The first node of
// a cluster may be a host alone; here its write comes after two nodes that do not hear it have become hosts.
func TestHostOnAStaleCount(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.part([]string{"x"}, []string{"a", "b"})
		n, cfg := c.prepare("x")
		goOn := make(chan struct{})
		counted := false // only the goroutine that joins uses it until x is let go on
		n.kv.Hook(func(call flaky.Call) flaky.Fault {
			if call.Verb != "Txn" {
				return flaky.None
			}
			if !call.Writes() {
				counted = counted || call.Ops[0].Key == "hosts"
			} else if counted {
				<-goOn
			}
			return flaky.None
		})
		c.mu.Lock()
		c.nodes["x"] = n
		c.mu.Unlock()
		joined := make(chan error, 1)
		go func() {
			m, err := member.Join(context.Background(), cfg)
			c.mu.Lock()
			n.m = m
			c.mu.Unlock()
			joined <- err
		}()
		c.settle()
		if !counted {
			t.Error("x has not counted, and nothing is tested")
		}
		c.join("a", "b")
		c.pass(ttl / 10)
		c.expectHosts("while x is about to become a host", "a", "a", "b")
		close(goOn)
		if err := <-joined; err != nil {
			t.Error(err)
		}
		c.settle()
		c.expectHosts("after x came with a count that is stale", "a", "a", "b")
	})
}

// TestAllAtOnce: nodes that start at the same time become hosts, all but the one that nobody hears.
func TestAllAtOnce(t *testing.T) {
	for range 20 {
		virtual(t, func(c *cluster) {
			names := strings.Fields("a b c x")
			c.part([]string{"x"}, names[:3])
			var wg sync.WaitGroup
			for _, name := range names {
				n, cfg := c.prepare(name)
				c.mu.Lock()
				c.nodes[name] = n
				c.mu.Unlock()
				cfg.Jitter = nil
				wg.Go(func() {
					m, err := member.Join(context.Background(), cfg)
					if err != nil {
						c.t.Error(err)
						return
					}
					c.mu.Lock()
					n.m = m
					c.mu.Unlock()
				})
			}
			wg.Wait()
			c.pass(time.Second)
			hosts := c.preferred("a")
			if alone := []string{"x"}; slices.Equal(hosts, alone) {
				return // it was there before any other: TestFirstHostThatNobodyHears
			}
			if want := []string{"a", "b", "c"}; !slices.Equal(hosts, want) {
				t.Errorf("hosts are %v, want %v", hosts, want)
			}
			for shard := range shards {
				one, _ := c.member("a").View().Preferred(shard)
				for _, of := range names {
					if other, _ := c.member(of).View().Preferred(shard); other != one {
						t.Fatalf("shard %d is for %q as a sees it and for %q as %s does: the hosts are not agreed upon", shard, one, other, of)
					}
				}
			}
		})
	}
}

// TestDriverIsNoHost: a driver asks for nothing, and its sessions do not count.
func TestDriverIsNoHost(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.joinAs("d", func(cfg *member.Config) { cfg.Self.Role = member.Driver })
		if _, joining := c.member("d").Candidacy(); joining {
			t.Error("a driver wants to be a host")
		}
		c.part([]string{"d"}, []string{"a", "b"})
		c.join("a", "b")
		c.expectHosts("with a driver that nobody hears", "a", "a", "b")
		if n, ok := c.member("a").View().Node(raysys.NodeID("d")); !ok || n.Joining {
			t.Errorf("the driver is %+v", n)
		}
	})
}
