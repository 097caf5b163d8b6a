package member_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

var (
	rounds = flag.Int("rounds", 0, "seeds that TestChaos tries; 0: 5, and 200 with -long")
	first  = flag.Int("first", 0, "the first of them")
)

// TestChaos cuts, stops, kills and heals at random, and checks what must hold whatever happens: nobody's session is ended by
// another while it may answer from memory (lenient sees to that), never are more than half of the members voted out in one lease, and
// once all is well again, all that live know each other. A failing seed is its subtest's name.
func TestChaos(t *testing.T) {
	rounds := cmp.Or(*rounds, long.Form(5, 200))
	evictions := 0
	for seed := *first; seed < *first+rounds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, func(c *cluster) { c.chaos(rand.New(rand.NewPCG(uint64(seed), 17)), &evictions) })
		})
	}
	if evictions < rounds/2 {
		t.Errorf("%d evictions in %d rounds: this tests nothing", evictions, rounds)
	}
	t.Logf("%d evictions in %d rounds", evictions, rounds)
}

func (c *cluster) chaos(r *rand.Rand, evictions *int) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}[:2+r.IntN(6)]
	c.lenience = 1 + r.IntN(4)
	c.relays = r.IntN(2) == 0
	bound := c.watchBound()
	c.join(names...)
	var story []string
	for range 25 {
		a, b := names[r.IntN(len(names))], names[r.IntN(len(names))]
		n := c.node(a)
		var did string
		switch k := r.IntN(20); {
		case k < 5 && a != b:
			c.cut(a, b)
			did = "cut " + a + " > " + b
			if r.IntN(3) > 0 {
				c.cut(b, a)
				did = "cut " + a + " | " + b
			}
		case k < 7:
			at := r.IntN(len(names))
			c.part(names[:at], names[at:])
			did = fmt.Sprint("part ", names[:at], names[at:])
		case k < 10:
			c.heal()
			did = "heal"
		case k < 12 && n.alive():
			c.freeze(a)
			did = "freeze " + a
		case k < 14:
			for _, n := range c.nodes {
				c.thaw(n.name)
			}
			did = "thaw"
		case k < 15:
			n.kv.Down(true)
			did = "down " + a
		case k < 17:
			for _, n := range c.nodes {
				n.kv.Down(false)
				n.kv.Slow(0)
			}
			did = "up"
		case k < 18:
			n.kv.Slow(time.Duration(r.IntN(3000)) * time.Millisecond)
			did = "slow " + a
		case k < 19:
			n.kv.FailNext(3, []flaky.Fault{flaky.LoseAnswer, flaky.LoseCall}[r.IntN(2)])
			did = "lose 3 of " + a
		case n.alive():
			c.kill(a)
			did = "kill " + a
		default:
			c.revive(a)
			did = "join " + a
		}
		story = append(story, did)
		c.pass(time.Duration(r.IntN(int(ttl))))
	}
	c.heal()
	for _, n := range c.nodes {
		n.kv.Down(false)
		n.kv.Slow(0)
		n.kv.FailNext(0, flaky.None)
		c.thaw(n.name)
	}
	c.pass(6 * ttl)
	for _, name := range names {
		if n := c.node(name); !n.alive() || n.m.State() == member.Fenced {
			c.revive(name)
			story = append(story, "join "+name)
		}
	}
	c.pass(ttl)
	for _, name := range names {
		if s := c.member(name).State(); s != member.Active {
			c.t.Errorf("%s is %v in the end: %v", name, s, c.member(name).Err())
		}
		if got := c.names(name); !slices.Equal(got, names) {
			c.t.Errorf("%s sees %v in the end, not %v", name, got, names)
		}
		if got := c.suspects(name); len(got) > 0 {
			c.t.Errorf("%s suspects %v in the end", name, got)
		}
	}
	bound.stop()
	*evictions += bound.evictions
	if c.t.Failed() {
		c.t.Logf("it began with %v, sessions of %d TTLs, relayed %v:\n%s", names, c.lenience, c.relays, strings.Join(story, "\n"))
	}
}

// revive starts a dead or fenced node again, as its supervisor would.
func (c *cluster) revive(name string) {
	old := c.node(name)
	if old.alive() && old.m.State() != member.Fenced {
		return
	}
	c.joinAs(name, func(*member.Config) {})
}

// bound counts evictions as they are written.
type bound struct {
	stop      func()
	evictions int // to be read after stop
}

// watchBound fails the test when more than half of those that were members at the beginning of a lease, or came during it, are
// voted out within it.
func (c *cluster) watchBound() *bound {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	b := &bound{stop: func() { cancel(); <-done }}
	at := map[string]time.Time{} // incarnation -> voted out
	go func() {
		defer close(done)
		index := uint64(0)
		for {
			pairs, next, err := c.kv.Watch(ctx, "evict/", index)
			if err != nil {
				return
			}
			index = next
			for _, p := range pairs {
				if id := strings.TrimPrefix(p.Key, "evict/"); at[id].IsZero() {
					at[id] = time.Now()
					b.evictions++
				}
			}
			members := map[string]bool{}
			nodes, _, _ := c.kv.List(ctx, "nodes/", store.Consistent)
			for _, p := range nodes {
				members[fmt.Sprint(p.Create)] = true
			}
			lately := 0
			for id, when := range at {
				if time.Since(when) < ttl {
					lately++
					members[id] = true
				}
			}
			if 2*lately > len(members) {
				c.t.Errorf("%d of %d members were voted out within one lease", lately, len(members))
			}
		}
	}()
	return b
}
