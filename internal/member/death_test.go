package member_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
)

// TestDied: the supervisor's word ends that start of the process and no other.
func TestDied(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		c.joinAs("b", func(cfg *member.Config) { cfg.Self.Launch = "second" })
		ctx := context.Background()
		for _, launch := range []string{"first", ""} {
			ended, err := member.DiedLaunch(ctx, c.kv, "b", launch)
			if ended || errors.Is(err, raysys.ErrBadOption) != (launch == "") {
				t.Error(launch, ended, err)
			}
		}
		c.settle()
		if got := c.names("a"); len(got) != 2 {
			t.Fatalf("by the word on another start, members are %v", got)
		}
		c.mu.Lock()
		c.node("b").dead = time.Now()
		c.mu.Unlock()
		c.member("b").Abandon()
		if ended, err := member.DiedLaunch(ctx, c.kv, "b", "second"); !ended || err != nil {
			t.Error(ended, err)
		}
		c.settle()
		if got := c.names("a"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("members are %v", got)
		}
		for _, name := range []raysys.NodeID{"b", "nobody"} {
			if ended, err := member.DiedLaunch(ctx, c.kv, name, "second"); ended || err != nil {
				t.Errorf("%s, who is gone: %v, %v", name, ended, err)
			}
		}
	})
}

// TestResetIsNoProof: a reset link to a node that answers, or that nothing answers for, is no proof of death (C17).
func TestResetIsNoProof(t *testing.T) {
	for name, prepare := range map[string]func(*cluster){
		"it answers":          func(*cluster) {},
		"nothing answers":     func(c *cluster) { c.part([]string{"a"}, []string{"b"}) },
		"another incarnation": func(c *cluster) { c.tell([]string{"expire", "b"}); c.pass(ttl); c.join("b") },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.relays = true
				c.join("a", "b", "c")
				was := c.member("b").Incarnation()
				prepare(c)
				c.member("a").LinkReset("b", was)
				c.pass(ttl)
				if got := c.names("a"); len(got) != 3 {
					t.Errorf("members are %v", got)
				}
			})
		})
	}
}

// TestDeathIsToldUntilTheStoreHears: proof of death does not get lost because the store blinked.
func TestDeathIsToldUntilTheStoreHears(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.lenience = 9
		c.join("a", "b")
		c.node("a").kv.FailNext(3, flaky.Refuse)
		c.kill("b")
		c.pass(2 * time.Second)
		if got := c.names("a"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("members are %v", got)
		}
	})
}

// TestProofIsFast: no pause lies between a process's death and the end of its session (C17: well under a second).
func TestProofIsFast(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b", "c", "d", "e")
		for _, name := range []string{"b", "c", "d"} {
			at := time.Now()
			c.kill(name)
			if _, ok := c.member("a").View().Node(raysys.NodeID(name)); ok || time.Since(at) > 0 {
				t.Errorf("%s is there %v after its death", name, time.Since(at))
			}
		}
	})
}
