package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

// TestTwoCannotEvictEachOther: whoever was voted out cannot vote (C17). Of n that all evict all, at most half go.
func TestTwoCannotEvictEachOther(t *testing.T) {
	for _, n := range []int{2, 3, 6, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			virtual(t, func(c *cluster) {
				names := strings.Fields("a b c d e f g")[:n]
				c.join(names...)
				type verdict struct{ by, over string }
				var mu sync.Mutex
				var passed []verdict
				var wg sync.WaitGroup
				for _, by := range names {
					c.node(by).kv.Slow(50 * time.Millisecond) // so that all read before one writes
					wg.Go(func() {
						m := c.member(by)
						for _, over := range names {
							victim, ok := m.View().Node(raysys.NodeID(over))
							if !ok || by == over {
								continue
							}
							written, err := member.Evict(context.Background(), m, victim)
							if err != nil && !errors.Is(err, member.ErrHalf) && !errors.Is(err, raysys.ErrFenced) && !errors.Is(err, store.ErrRefused) {
								t.Errorf("%s evicts %s: %v", by, over, err)
							}
							if written {
								mu.Lock()
								passed = append(passed, verdict{by, over})
								mu.Unlock()
							}
						}
					})
				}
				wg.Wait()
				if len(passed) != n/2 || len(c.keys("evict/")) != n/2 {
					t.Errorf("of %d, %d were voted out: %v, %v", n, len(passed), passed, c.keys("evict/"))
				}
				for i, v := range passed {
					for _, w := range passed[i+1:] {
						if w.by == v.over {
							t.Errorf("%s was voted out and then voted %s out", w.by, w.over)
						}
					}
				}
			})
		})
	}
}

// TestHalfWithinALease: the bound is on one lease; in the next one it counts anew.
func TestHalfWithinALease(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b", "c", "d", "e")
		evict := func(name string) error {
			victim, ok := c.member("a").View().Node(raysys.NodeID(name))
			if !ok {
				t.Fatalf("%s is gone", name)
			}
			_, err := member.Evict(context.Background(), c.member("a"), victim)
			return err
		}
		if err := errors.Join(evict("b"), evict("c")); err != nil {
			t.Fatal(err)
		}
		if err := evict("d"); !errors.Is(err, member.ErrHalf) {
			t.Errorf("the third of five: %v", err)
		}
		c.pass(ttl / 2) // b and c saw it and are gone; they count all the same
		if got := c.names("a"); len(got) != 3 {
			t.Fatalf("members are %v", got)
		}
		if err := evict("d"); !errors.Is(err, member.ErrHalf) {
			t.Errorf("the third of five, half a lease later: %v", err)
		}
		c.pass(ttl/2 + time.Second)
		if err := evict("d"); err != nil {
			t.Errorf("the first of three in the next lease: %v", err)
		}
		if err := evict("e"); !errors.Is(err, member.ErrHalf) {
			t.Errorf("the second of three: %v", err)
		}
	})
}

// TestEvictionWithLostAnswers: a transaction whose outcome is not known is looked up, not done twice and not given up.
func TestEvictionWithLostAnswers(t *testing.T) {
	for fault, name := range map[flaky.Fault]string{flaky.LoseAnswer: "answer lost", flaky.LoseCall: "call lost"} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.join("a", "b")
				victim, _ := c.member("a").View().Node("b")
				c.node("a").kv.FailNext(1, fault)
				if _, err := member.Evict(context.Background(), c.member("a"), victim); err != nil {
					t.Error(err)
				}
				if got := c.keys("evict/"); len(got) != 1 {
					t.Errorf("votes are %v", got)
				}
			})
		})
	}
}

// TestEvictNeedsMembership: an accuser or a victim that is not a member any more changes nothing.
func TestEvictNeedsMembership(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b", "c")
		b, _ := c.member("a").View().Node("b")
		cc, _ := c.member("a").View().Node("c")
		c.tell([]string{"expire", "b"})
		if _, err := member.Evict(context.Background(), c.member("a"), b); err == nil {
			t.Error("a session that is gone was voted out")
		}
		if _, err := member.Evict(context.Background(), c.member("b"), cc); err == nil {
			t.Error("a node without a session voted another out")
		}
		if got := c.keys("evict"); len(got) > 0 {
			t.Errorf("written: %v", got)
		}
	})
}

// TestBallot: who may agree, and when.
func TestBallot(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.patience = ttl // so that b is still there when its monitors agree
		c.join("a", "b", "c", "d", "e")
		ask := func(monitor, victim string) bool {
			return c.member(monitor).Ballot(raysys.NodeID(victim), c.member(victim).Incarnation(), 0)
		}
		monitors := c.member("a").View().Monitors("b")
		if len(monitors) != 3 {
			t.Fatalf("b has monitors %v", monitors)
		}
		one := string(monitors[0])
		if ask(one, "b") {
			t.Error("it agrees that a node is silent which it hears")
		}
		c.freeze("b")
		c.pass(7 * time.Second)
		if ask(one, "b") {
			t.Error("it agrees long before a lease of silence")
		}
		c.pass(1500 * time.Millisecond)
		for _, name := range []string{"a", "c", "d", "e"} {
			is := false
			for _, m := range monitors {
				is = is || string(m) == name
			}
			if ask(name, "b") != is {
				t.Errorf("%s agrees: %v; it is a monitor: %v", name, !is, is)
			}
		}
		if c.member(one).Ballot("b", c.member("b").Incarnation()+1, 0) {
			t.Error("it agrees on another incarnation")
		}
		if c.member(one).Ballot("z", 1, 0) {
			t.Error("it agrees on a node that it does not know")
		}
		c.node(one).kv.Down(true)
		c.node(one).clock.jump(time.Hour)
		if ask(one, "b") {
			t.Error("it agrees though its own lease is over")
		}
	})
}

// TestTheStalledHearNobody: a process that was stopped finds everybody silent; it neither agrees nor accuses.
func TestTheStalledHearNobody(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.lenience, c.patience = 9, ttl
		c.join("a", "b", "c")
		c.pass(time.Second)
		c.freeze("a")
		c.pass(ttl - time.Second)
		c.mu.Lock()
		c.node("a").goesOn = time.Now()
		c.mu.Unlock()
		for _, name := range []string{"b", "c"} { // before its own goroutines noticed
			if c.member("a").Ballot(raysys.NodeID(name), c.member(name).Incarnation(), 0) {
				t.Errorf("it agrees that %s is silent", name)
			}
		}
		c.thaw("a")
		for _, name := range []string{"b", "c"} {
			if c.member("a").Ballot(raysys.NodeID(name), c.member(name).Incarnation(), 0) {
				t.Errorf("awake, it agrees that %s is silent", name)
			}
		}
		c.pass(3 * ttl)
		if got := c.names("b"); len(got) != 3 {
			t.Errorf("members are %v", got)
		}
	})
}

// TestTheStalledOfTwo: neither does one of two, who has nobody to compare with.
func TestTheStalledOfTwo(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		c.pass(time.Second)
		c.freeze("a")
		c.pass(8500 * time.Millisecond)
		c.mu.Lock()
		c.node("a").goesOn = time.Now()
		c.mu.Unlock()
		if c.member("a").State() != member.Active {
			t.Fatal("its lease is over: this tests nothing")
		}
		if c.member("a").Ballot("b", c.member("b").Incarnation(), 0) {
			t.Error("it agrees that b is silent")
		}
	})
}

// TestTheAwokenHearNobody: nor does one whose machine slept.
func TestTheAwokenHearNobody(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.patience = ttl
		c.join("a", "b")
		c.freeze("b")
		ask := func() bool { return c.member("a").Ballot("b", c.member("b").Incarnation(), 0) }
		c.pass(9 * time.Second)
		if !ask() {
			t.Fatal("it does not agree that b is silent: this tests nothing")
		}
		c.node("a").clock.jump(5 * time.Second)
		c.pass(500 * time.Millisecond)
		if ask() {
			t.Error("it agrees that b is silent")
		}
	})
}

// TestTakeoverAfterSilence: from the last sign of life until the node's keys are gone it takes at most 5 s, of a driver, which has no
// electors, 2 TTL + 2 s; also when the session would live for much longer, and with any number of nodes (C17).
func TestTakeoverAfterSilence(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.lenience = 9
				c.join(strings.Fields("a b c d e f g")[:n]...)
				c.joinAs("x", func(cfg *member.Config) { cfg.Self.Role = member.Driver })
				c.pass(1234 * time.Millisecond)
				silent := func(name string, first, last time.Duration) {
					members := len(c.names("a"))
					c.freeze(name)
					c.pass(first)
					if got := c.names("a"); len(got) != members {
						t.Errorf("%s was taken over within %v: %v", name, first, got)
					}
					c.pass(last - first)
					if got := c.names("a"); len(got) != members-1 {
						t.Errorf("%s is silent for %v, and members are still %v", name, last, got)
					}
				}
				silent("b", 4*time.Second, 5*time.Second)
				c.pass(2 * ttl)
				silent("x", 2*ttl-time.Second/10, 2*ttl+2*time.Second)
			})
		})
	}
}

// TestTheAccuserDies: the verdict stands, and the victim ends itself.
func TestTheAccuserDies(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.lenience = 9
		c.join("a", "b")
		c.part([]string{"a"}, []string{"b"})
		c.pass(ttl + time.Second/10)
		if got := c.keys("evict/"); len(got) != 1 {
			t.Fatalf("votes are %v", got)
		}
		c.kill("a")
		c.pass(ttl / 2)
		if s := c.member("b").State(); s != member.Fenced {
			t.Errorf("b is %v", s)
		}
	})
}

// TestOldVotesAreRemoved: a vote is removed an hour after it was cast, unless the incarnation that it is about is still there.
func TestOldVotesAreRemoved(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b", "c")
		victim, _ := c.member("a").View().Node("c")
		if _, err := member.Evict(context.Background(), c.member("a"), victim); err != nil {
			t.Fatal(err)
		}
		c.pass(55 * time.Minute)
		if got := c.keys("evict/"); len(got) != 1 {
			t.Errorf("after 55 minutes votes are %v", got)
		}
		c.pass(30 * time.Minute)
		if got := c.keys("evict/"); len(got) != 0 {
			t.Errorf("after 85 minutes votes are %v", got)
		}
	})
}
