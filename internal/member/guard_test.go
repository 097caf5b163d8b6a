package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

// electors returns the names that a node's guard in the store has, and its number; nil and 0 where there is none.
func (c *cluster) electors(name string) ([]string, uint64) {
	c.t.Helper()
	p, err := c.kv.Get(context.Background(), fmt.Sprintf("guards/%d", c.member(name).Incarnation()))
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0
	}
	var v struct {
		Electors []uint64 `json:"electors"`
	}
	if err == nil {
		err = json.Unmarshal(p.Value, &v)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, id := range v.Electors {
		for other, n := range c.nodes {
			if n.m.Incarnation() == id {
				names = append(names, other)
			}
		}
	}
	slices.Sort(names)
	return names, p.Modify
}

func (c *cluster) expectElectors(of string, want ...string) uint64 {
	c.t.Helper()
	got, number := c.electors(of)
	if !slices.Equal(got, want) {
		c.t.Errorf("the electors of %s are %v, want %v", of, got, want)
	}
	return number
}

// as joins a node with a change of its Info.
func (c *cluster) as(name string, change func(*member.Info)) {
	c.t.Helper()
	c.joinAs(name, func(cfg *member.Config) { change(&cfg.Self) })
}

// TestElectors: up to three, hosts before drivers, other machines before the own, no observers, and none while a host is alone.
// Where nothing changes the guard is not written, and it goes with its node.
func TestElectors(t *testing.T) {
	virtual(t, func(c *cluster) {
		driver := func(i *member.Info) { i.Role = member.Driver }
		c.join("a")
		c.as("d", driver)
		c.as("o", func(i *member.Info) { i.Role, i.Observer = member.Driver, true })
		c.pass(time.Second)
		c.expectElectors("a") // no other host
		c.join("b")
		c.pass(time.Second)
		c.expectElectors("a", "b", "d")
		c.expectElectors("b", "a", "d")
		c.expectElectors("d") // a driver is judged the slow way
		c.as("e", func(i *member.Info) { i.Address = "a:2" })
		c.pass(time.Second)
		c.expectElectors("a", "b", "d", "e")
		c.join("c", "f")
		c.pass(time.Second)
		first := c.expectElectors("a", "b", "c", "f") // machines of their own, and no driver
		c.as("x", driver)
		c.join("g", "h")
		c.pass(time.Hour)
		if last := c.expectElectors("a", "b", "c", "f"); last != first {
			t.Errorf("the guard was written again: %d after %d", last, first)
		}
		c.tell([]string{"expire", "b"})
		c.pass(time.Second)
		if got, _ := c.electors("a"); len(got) != 3 || slices.Contains(got, "b") {
			t.Errorf("b is gone, and the electors of a are %v", got)
		}
		if got := c.keys(fmt.Sprintf("guards/%d", c.member("b").Incarnation())); len(got) > 0 {
			t.Errorf("the guard of b outlived it: %v", got)
		}
	})
}

// TestElectorsThatDoNotAnswer: one gives way to a member that answers; where there is none it stays.
func TestElectorsThatDoNotAnswer(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.relays = true
		c.join("a", "b", "c")
		c.pass(time.Second)
		c.expectElectors("a", "b", "c")
		c.cut("c", "a")
		c.pass(8 * time.Second)
		c.expectElectors("a", "b", "c")
		c.join("d", "e")
		c.pass(time.Second)
		c.expectElectors("a", "b", "d", "e")
	})
}

// TestGuardOfAnotherHand: what an operator writes in the place of a guard, or takes away, is replaced when the guard is written
// next, and until then no promise of its electors is enough.
func TestGuardOfAnotherHand(t *testing.T) {
	for name, write := range map[string]func(c *cluster, key string){
		"garbage": func(c *cluster, key string) { c.set(key, "{") },
		"no electors that are there": func(c *cluster, key string) {
			c.set(key, `{"v":1,"write":1,"electors":[1,2]}`)
		},
		"removed": func(c *cluster, key string) {
			if _, err := c.kv.Txn(context.Background(), []store.Op{store.Delete(key)}); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.join("a", "b", "c")
				c.pass(time.Second)
				write(c, fmt.Sprintf("guards/%d", c.member("a").Incarnation()))
				c.join("d")
				c.pass(5 * time.Second)
				c.expectElectors("a", "b", "c", "d")
				if !c.member("a").Promised() {
					t.Error("its electors answer, and a may not answer from memory")
				}
				c.freeze("a")
				c.pass(5 * time.Second)
				if got := c.names("b"); slices.Contains(got, "a") {
					t.Errorf("a is silent for 5 s, and members are %v", got)
				}
			})
		})
	}
}

// TestGuardWithLostAnswers: a write whose outcome is not known is read back.
func TestGuardWithLostAnswers(t *testing.T) {
	for fault, name := range map[flaky.Fault]string{flaky.LoseAnswer: "answers lost", flaky.LoseCall: "calls lost", flaky.Delay: "late"} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.join("a", "b")
				c.pass(time.Second)
				faults := 3
				var mu sync.Mutex
				c.node("a").kv.Hook(func(call flaky.Call) flaky.Fault {
					mu.Lock()
					defer mu.Unlock()
					if len(call.Ops) == 4 && strings.HasPrefix(call.Ops[3].Key, "guards/") && faults > 0 {
						faults--
						return fault
					}
					return flaky.None
				})
				c.join("c")
				c.pass(3 * time.Second)
				c.node("a").kv.Deliver()
				c.pass(20 * time.Second)
				c.expectElectors("a", "b", "c")
				if faults > 0 || !c.member("a").Promised() {
					t.Errorf("%d faults are left, a may answer from memory: %v", faults, c.member("a").Promised())
				}
			})
		})
	}
}

// TestBallotBinds: who has given its ballot answers no pings, though it hears the node again, until the node has written its guard
// anew. A ballot that is refused leaves all as it was.
func TestBallotBinds(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b", "c")
		c.pass(time.Second)
		_, number := c.electors("b")
		b := c.member("b").Incarnation()
		mute := func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			_, is := c.node("a").withheld[b]
			return is
		}
		if c.member("a").Ballot("b", b, number) || mute() {
			t.Error("a gives its ballot against b, which it hears")
		}
		c.node("c").kv.Down(true) // so that nobody evicts b meanwhile
		c.node("a").kv.Hook(func(call flaky.Call) flaky.Fault {
			if len(call.Ops) > 4 {
				return flaky.Refuse
			}
			return flaky.None
		})
		c.freeze("b")
		c.pass(3700 * time.Millisecond)
		if c.member("a").Ballot("b", b, number) {
			t.Error("a gives its ballot after 3.7 s of silence: its promise is 3.8 s")
		}
		c.pass(200 * time.Millisecond)
		if !c.member("a").Ballot("b", b, number) || !mute() {
			t.Error("a does not give its ballot after 3.9 s of silence")
		}
		c.thaw("b")
		for range 10 {
			if _, now := c.electors("b"); now == number && !mute() {
				t.Error("a answers the pings of b under the guard against which it has given its ballot")
			}
			c.pass(50 * time.Millisecond)
		}
		c.pass(2 * time.Second)
		if _, now := c.electors("b"); now <= number || mute() {
			t.Errorf("b is back, its guard is %d after %d, and a withholds its pongs: %v", now, number, mute())
		}
		if !c.member("b").Promised() {
			t.Error("b may not answer from memory")
		}
	})
}

// TestPromisedVote: whoever finds such a vote ends the session at once; any other waits for the lease of the victim, which its
// record says and not the own configuration.
func TestPromisedVote(t *testing.T) {
	for _, x := range []struct {
		promised bool
		ttl      time.Duration
		gone     time.Duration // after the vote was found
	}{{true, ttl, 0}, {false, ttl, ttl}, {false, 3 * ttl, 3 * ttl}} {
		t.Run(fmt.Sprint(x.promised, x.ttl), func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.lenience = 20
				c.join("a", "b")
				c.joinAs("v", func(cfg *member.Config) { cfg.TTL, cfg.Silence = x.ttl, 4*time.Second })
				c.pass(time.Second)
				c.freeze("v")
				c.pass(3 * time.Second)
				v, _ := c.member("a").View().Node("v")
				if err := member.WriteVote(context.Background(), c.member("a"), v, x.promised); err != nil {
					t.Fatal(err)
				}
				c.kill("a")
				c.pass(2 * time.Second) // b finds it, since v is silent
				c.pass(max(0, x.gone-time.Second))
				if got := c.names("b"); x.gone > 0 && !slices.Contains(got, "v") {
					t.Errorf("v was ended within its lease of %v", x.ttl)
				}
				c.pass(3 * time.Second)
				if got := c.names("b"); slices.Contains(got, "v") {
					t.Errorf("v is still there %v after the vote", x.gone+4*time.Second)
				}
			})
		})
	}
}

// plainRecords is the store as a program from before writes it: its record says nothing of promises and leases.
type plainRecords struct{ store.KV }

func (k plainRecords) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	ops = slices.Clone(ops)
	for i, o := range ops {
		var fields map[string]any
		if strings.HasPrefix(o.Key, "nodes/") && o.Verb.Writes() && json.Unmarshal(o.Value, &fields) == nil {
			delete(fields, "promise")
			delete(fields, "lease")
			ops[i].Value, _ = json.Marshal(fields)
		}
	}
	return k.KV.Txn(ctx, ops)
}

// TestProgramsFromBefore: one is no elector, and as a victim it is given its lease.
func TestProgramsFromBefore(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.lenience = 9
		c.join("a", "b")
		c.joinAs("old", func(cfg *member.Config) { cfg.KV = plainRecords{cfg.KV} })
		c.pass(time.Second)
		c.expectElectors("a", "b")
		c.freeze("old")
		c.pass(2*ttl - time.Second)
		if got := c.names("a"); !slices.Contains(got, "old") {
			t.Errorf("it was ended before its lease was over: %v", got)
		}
		c.pass(2 * time.Second)
		if got := c.names("a"); slices.Contains(got, "old") {
			t.Errorf("it is silent for two leases, and members are %v", got)
		}
	})
}

// TestAdmit: without promises all that ask share a read of the store, at most four a second; one that gets no answer is refused within a
// second, and pongs end the wait.
func TestAdmit(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b", "c")
		c.pass(time.Second)
		admit := func() error { return c.member("a").Admit(context.Background()) }
		if err := admit(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b", "c"} { // who cannot evict a
			c.node(name).kv.Down(true)
		}
		c.part([]string{"a"}, []string{"b", "c"})
		c.pass(4 * time.Second)
		reads := 0
		var mu sync.Mutex
		c.node("a").kv.Hook(func(call flaky.Call) flaky.Fault {
			mu.Lock()
			defer mu.Unlock()
			if len(call.Ops) == 2 && strings.HasPrefix(call.Ops[0].Key, "evict/") && strings.HasPrefix(call.Ops[1].Key, "nodes/") {
				reads++
			}
			return flaky.None
		})
		began := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 8 {
					if err := admit(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		if most := 1 + int(took/(250*time.Millisecond)); reads > most || took > 4*time.Second {
			t.Errorf("400 answers took %d reads and %v", reads, took)
		}
		c.node("a").kv.Down(true)
		began = time.Now()
		if err := admit(); !errors.Is(err, raysys.ErrSuspended) || time.Since(began) != time.Second {
			t.Errorf("without the store: %v after %v", err, time.Since(began))
		}
		time.AfterFunc(300*time.Millisecond, c.heal)
		began = time.Now()
		if err := admit(); err != nil || time.Since(began) > 500*time.Millisecond {
			t.Errorf("the electors answer again: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.part([]string{"a"}, []string{"b", "c"})
		c.pass(4 * time.Second)
		if err := c.member("a").Admit(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("its context is over: %v", err)
		}
	})
}

// TestAdmitWhoIsGone: one that was voted out, or whose session is gone, is told so.
func TestAdmitWhoIsGone(t *testing.T) {
	for name, end := range map[string]func(*cluster){
		"its session": func(c *cluster) { c.tell([]string{"expire", "a"}) },
		"a vote": func(c *cluster) {
			a, _ := c.member("b").View().Node("a")
			if err := member.WriteVote(context.Background(), c.member("b"), a, true); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				c.join("a", "b", "c")
				c.pass(time.Second)
				c.node("b").kv.Down(true)
				c.part([]string{"a"}, []string{"b", "c"})
				c.pass(3900 * time.Millisecond)
				c.node("b").kv.Down(false)
				end(c)
				if err := c.member("a").Admit(context.Background()); !errors.Is(err, raysys.ErrFenced) {
					t.Errorf("it was admitted: %v", err)
				}
			})
		})
	}
}

// lateReader is a clock whose reader is held up once, after it has read.
type lateReader struct {
	*testClock
	held atomic.Pointer[func()]
}

func (c *lateReader) Wall() time.Time {
	now := c.testClock.Wall()
	if f := c.held.Swap(nil); f != nil {
		(*f)()
	}
	return now
}

// TestPromisedWhileOthersLook: of those who look at once when the promises have run out, none finds that they hold,
// though another has looked since it read the clock.
func TestPromisedWhileOthersLook(t *testing.T) {
	virtual(t, func(c *cluster) {
		clock := &lateReader{}
		c.joinAs("a", func(cfg *member.Config) {
			clock.testClock = cfg.Clock.(*testClock)
			cfg.Clock = clock
		})
		c.join("b", "c")
		c.pass(time.Second)
		a := c.member("a")
		look := func() {
			c.pass(time.Millisecond)
			member.StatsOf(a)
		}
		clock.held.Store(&look)
		if !a.Promised() {
			t.Error("all answer, and a may not answer from memory")
		}
		for _, name := range []string{"b", "c"} { // who cannot evict a
			c.node(name).kv.Down(true)
		}
		c.part([]string{"a"}, []string{"b", "c"})
		c.pass(4 * time.Second)
		clock.held.Store(&look)
		if a.Promised() || clock.held.Load() != nil {
			t.Error("a may answer from memory, though nobody has answered for 4 s")
		}
	})
}

// reconnected is a prober whose connections to some nodes are new: no ping over them was answered yet.
type reconnected struct {
	member.Prober
	to atomic.Pointer[[]string]
}

func (p *reconnected) Answered(id raysys.NodeID, incarnation uint64) (time.Duration, bool) {
	if slices.Contains(*p.to.Load(), string(id)) {
		return 0, false
	}
	return p.Prober.Answered(id, incarnation)
}

// TestElectorsOverNewConnections: an elector whose connection is a new one stays: it answered a moment ago.
func TestElectorsOverNewConnections(t *testing.T) {
	virtual(t, func(c *cluster) {
		links := &reconnected{}
		links.to.Store(&[]string{})
		c.joinAs("a", func(cfg *member.Config) { links.Prober, cfg.Prober = cfg.Prober, links })
		c.join("b", "c", "d", "e", "f")
		c.pass(5 * time.Second)
		names, number := c.electors("a")
		links.to.Store(&names)
		c.pass(800 * time.Millisecond)
		links.to.Store(&[]string{})
		c.pass(5 * time.Second)
		if last := c.expectElectors("a", names...); last != number {
			t.Errorf("the guard was written again: %d after %d", last, number)
		}
	})
}

// briskly is a prober to whose pings only those answer who are pinged briskly.
type briskly struct {
	member.Prober
	to atomic.Pointer[[]member.Node]
}

func (p *briskly) PingBriskly(nodes []member.Node) { p.to.Store(&nodes) }

func (p *briskly) Answered(id raysys.NodeID, incarnation uint64) (time.Duration, bool) {
	if !slices.ContainsFunc(*p.to.Load(), func(n member.Node) bool { return n.Incarnation == incarnation }) {
		return 0, false
	}
	return p.Prober.Answered(id, incarnation)
}

// TestCandidatesArePinged: who may be an elector, and has answered nothing yet, is pinged as electors are, while there are too few:
// a host that has just joined has its electors soon.
func TestCandidatesArePinged(t *testing.T) {
	virtual(t, func(c *cluster) {
		links := &briskly{}
		links.to.Store(&[]member.Node{})
		c.join("b", "c", "d", "e")
		c.joinAs("a", func(cfg *member.Config) { links.Prober, cfg.Prober = cfg.Prober, links })
		c.pass(500 * time.Millisecond)
		names, _ := c.electors("a")
		if brisk := len(*links.to.Load()); len(names) != 3 || brisk != 3 {
			t.Errorf("the electors of a are %v, and %d are pinged briskly", names, brisk)
		}
	})
}

// TestBadSilence: what cannot be meant is refused.
func TestBadSilence(t *testing.T) {
	virtual(t, func(c *cluster) {
		for _, d := range []time.Duration{-1, time.Nanosecond, member.MinSilence - 1, ttl + 1} {
			_, cfg := c.prepare("a")
			cfg.Silence = d
			if _, err := member.Join(context.Background(), cfg); !errors.Is(err, raysys.ErrBadOption) {
				t.Errorf("%v: %v", d, err)
			}
		}
		for name, d := range map[string]time.Duration{"a": member.MinSilence, "b": ttl} {
			c.joinAs(name, func(cfg *member.Config) { cfg.Silence = d })
		}
		const short = member.MinSilence / 2 // a lease: nothing else could be given
		c.joinAs("c", func(cfg *member.Config) { cfg.TTL, cfg.SuspectAfter, cfg.Silence = short, 0, short })
	})
}

// FuzzGuard: a guard that can be read names up to three electors, each once.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{
		"", "{", "null", `{"v":1,"write":1,"electors":[3,4]}`, `{"v":1,"electors":[1,1]}`, `{"v":1,"electors":[0]}`, `{"v":0,"electors":[7]}`,
		`{"v":1,"electors":[1,2,3,4]}`, `{"v":1,"electors":[-1]}`, `{"v":1,"electors":null}`, `{"v":9,"more":{},"electors":[18446744073709551615]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		ids, err := member.DecodeGuard(value)
		slices.Sort(ids)
		if err != nil && len(ids) > 0 || len(ids) > 3 || len(slices.Compact(slices.Clone(ids))) < len(ids) || slices.Contains(ids, 0) {
			t.Errorf("%q: %v, %v", value, ids, err)
		}
	})
}

// FuzzPromise: whatever a record says, no node is trusted for longer than its lease, and none for ever.
func FuzzPromise(f *testing.F) {
	for _, x := range [][2]int64{{3800, 10000}, {0, 0}, {-1, -1}, {10000, 10000}, {1 << 62, 1 << 62}, {1, 0}, {100, 24 * 3600 * 1000}, {5, 24*3600*1000 + 1}} {
		f.Add(x[0], x[1])
	}
	f.Fuzz(func(t *testing.T, promise, lease int64) {
		n, got, err := member.PromiseOf([]byte(fmt.Sprintf(`{"v":1,"address":"a:1","promise":%d,"lease":%d}`, promise, lease)))
		if err != nil || got < 0 || n.TTL < 0 || n.TTL > 24*time.Hour || got > 0 && got >= n.TTL {
			t.Errorf("promise %d, lease %d: %v of %v, %v", promise, lease, got, n.TTL, err)
		}
	})
}
