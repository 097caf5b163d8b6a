package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// storm is a sequence of faults on a cluster, drawn from its seed.
type storm struct {
	c          *testkit.Cluster
	rng        *rand.Rand
	ttl        time.Duration
	partitions int
	outages    int // of the store, for one node
	pauses     int
	expiries   int
	kills      int
}

// blow makes all faults, one after the other, in an order of chance, and ends with all of them healed.
func (s *storm) blow() {
	var list []func()
	for range s.partitions {
		list = append(list, s.partition)
	}
	for range s.outages {
		list = append(list, s.outage)
	}
	for range s.pauses {
		list = append(list, s.pauseBeyondLease)
	}
	for range s.expiries {
		list = append(list, func() {
			i := s.any()
			if s.member(i) {
				s.c.ExpireSession(i)
			}
			s.calm(s.ttl / 2)
		})
	}
	for range s.kills {
		list = append(list, func() {
			i := s.any()
			s.c.Kill(i)
			s.calm(s.ttl / 4)
			s.c.Restart(i)
		})
	}
	s.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, f := range list {
		f()
	}
	s.c.Heal()
}

func (s *storm) any() int { return s.rng.IntN(s.c.Size()) + 1 }

// calm lets up to d pass.
func (s *storm) calm(d time.Duration) { pause(time.Duration(s.rng.Int64N(int64(d))) + 1) }

// member reports whether node i has a session to lose: one that was evicted a moment ago has none.
func (s *storm) member(i int) bool {
	p, err := s.c.Store().Get(context.Background(), "nodes/"+string(s.c.Name(i)))
	return err == nil && p.Session != ""
}

// partition cuts a random group from the rest, or one pair one way, for up to twice the lease. The test's own node, 0,
// is on a random side.
func (s *storm) partition() {
	if s.rng.IntN(3) == 0 {
		i, j := s.any(), s.rng.IntN(s.c.Size()+1)
		if i != j {
			s.c.CutOneWay(i, j)
		}
	} else {
		var one, other []int
		for i := range s.c.Size() + 1 {
			if s.rng.IntN(2) == 0 {
				one = append(one, i)
			} else {
				other = append(other, i)
			}
		}
		s.c.Split(one, other)
	}
	// The test's own node is voted out like any other, but there is nobody to start it again.
	s.calm(s.ttl / 2)
	for i := range s.c.Size() {
		s.c.Mend(0, i+1)
	}
	s.calm(2 * s.ttl)
	s.c.Heal()
	s.calm(s.ttl / 2)
}

// outage takes the store from one node, whose connections to others stay, for longer than its lease; every other time its
// clock jumps too.
func (s *storm) outage() {
	i := s.any()
	s.c.StoreDown(i)
	if s.rng.IntN(2) == 0 {
		s.c.ClockJump(i, time.Duration(s.rng.Int64N(int64(2*s.ttl)))-s.ttl)
	}
	s.calm(3 * s.ttl)
	s.c.StoreUp(i)
	s.calm(s.ttl)
}

// pauseBeyondLease stops a node for longer than its lease, and lets it go on with all that it remembers.
func (s *storm) pauseBeyondLease() {
	i := s.any()
	s.c.Pause(i)
	pause(s.ttl)
	s.calm(2 * s.ttl)
	s.c.Resume(i)
	s.calm(s.ttl)
}

// register is a kind of counter.
type register struct {
	add, read func(ctx context.Context, key string) (int, error)
}

// written is the counters that write their State, durable those whose turns are transactions.
var (
	written = register{
		func(ctx context.Context, key string) (int, error) {
			return add.With(raysys.Deadline(5*time.Second)).Call(ctx, counters.Get(key), 1).Get(ctx)
		},
		func(ctx context.Context, key string) (int, error) {
			return read.With(raysys.Deadline(5*time.Second)).Call(ctx, counters.Get(key)).Get(ctx)
		},
	}
	durable = register{
		func(ctx context.Context, key string) (int, error) {
			return vaultAdd.With(raysys.Deadline(5*time.Second)).Call(ctx, vaults.Get(key), step{N: 1}).Get(ctx)
		},
		func(ctx context.Context, key string) (int, error) {
			return vaultRead.With(raysys.Deadline(5*time.Second)).Call(ctx, vaults.Get(key)).Get(ctx)
		},
	}
)

// counting is clients that add to counters and read them, at random, and record what they were told.
type counting struct {
	of   register
	h    *testkit.History
	wg   sync.WaitGroup
	stop chan struct{}

	mu   sync.Mutex // guards open
	open map[string]int
}

// maxOpen is how many calls of one key may be open before it gets no more: the check of a history is exponential in them.
const maxOpen = 8

// ask makes one call, unless its key has too many open ones.
func (g *counting) ask(client int, key string, do any, call func() (int, error)) {
	g.mu.Lock()
	full := g.open[key] >= maxOpen
	g.mu.Unlock()
	if full {
		return
	}
	op := g.h.Begin(client, key, do)
	n, err := call()
	op.End(n, err)
	if _, reads := do.(testkit.Read); err != nil && !reads && !testkit.NotDone(err) {
		g.mu.Lock()
		g.open[key]++
		g.mu.Unlock()
	}
}

// startCounting begins with clients on every node and on the test's own: one beside a grain goes on calling it when its
// node is cut off, and must not be told what is no longer so.
func startCounting(k *testkit.Kit, of register, prefix string, keys, clients int, think time.Duration) *counting {
	g := &counting{of: of, h: testkit.NewHistory(), stop: make(chan struct{}), open: map[string]int{}}
	cluster, seed := k.Cluster(), k.Seed()
	for c := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(c)))
		g.wg.Go(func() {
			for {
				select {
				case <-g.stop:
					return
				case <-time.After(time.Duration(rng.Int64N(int64(think)))):
				}
				node := cluster.Node(c % (cluster.Size() + 1))
				if node == nil {
					continue // it was killed
				}
				ctx := node.Context(context.Background())
				key := fmt.Sprint(prefix, rng.IntN(keys))
				if rng.IntN(4) == 0 {
					g.ask(c, key, testkit.Read{}, func() (int, error) { return of.read(ctx, key) })
				} else {
					g.ask(c, key, testkit.Add(1), func() (int, error) { return of.add(ctx, key) })
				}
			}
		})
	}
	return g
}

// wait returns once n calls more were answered.
func (g *counting) wait(ctx context.Context, t testing.TB, n int) {
	t.Helper()
	before, _, _ := g.h.Counts()
	for now := before; now < before+n; now, _, _ = g.h.Counts() {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d calls were answered: %v", now-before, n, context.Cause(ctx))
		}
		pause(10 * time.Millisecond)
	}
}

func (g *counting) end() {
	close(g.stop)
	g.wg.Wait()
}

// readAll reads every counter once the cluster is whole again, so that what was acknowledged and lost shows.
func (g *counting) readAll(t testing.TB, k *testkit.Kit, prefix string, keys int) {
	t.Helper()
	for i := range keys {
		key := fmt.Sprint(prefix, i)
		for try := 0; ; try++ {
			op := g.h.Begin(1<<20, key, testkit.Read{})
			n, err := g.of.read(k.Context(), key)
			op.End(n, err)
			if err == nil {
				break
			}
			if try == 100 {
				t.Fatalf("%s cannot be read after all faults are healed: %v", key, err)
			}
			pause(100 * time.Millisecond)
		}
	}
}

// TestCountersInAStorm: counters in grains.State, under partitions, pauses longer than the lease, and sessions that end:
// no two activations commit side by side, and every history is linearizable.
func TestCountersInAStorm(t *testing.T) {
	ttl := 10 * time.Second
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		prefix := fmt.Sprintf("storm%d-", runs.Add(1))
		keys := long.Form(100, 1000)
		lives0, commits0 := counterLives.Count()
		g := startCounting(k, written, prefix, keys, long.Form(12, 36), long.Form(400*time.Millisecond, time.Second))
		s := storm{
			c: c, rng: k.Rand(), ttl: ttl,
			partitions: long.Form(8, 100), outages: long.Form(3, 50), pauses: long.Form(3, 50), expiries: long.Form(5, 50), kills: long.Form(3, 20),
		}
		s.blow()
		k.Advance(3 * ttl)
		g.end()
		c.Ready()
		g.readAll(t, k, prefix, keys)
		testkit.SingleActivation(t, counterLives)
		testkit.Linearizable(t, g.h, testkit.Register())
		answered, refused, open := g.h.Counts()
		lives, commits := counterLives.Count()
		lives, commits = lives-lives0, commits-commits0
		if t.Failed() {
			return
		}
		figure(t, "%d counters under %d partitions, %d outages of the store for one node, %d pauses longer than the lease, %d session expiries, %d kills: %d calls answered, %d refused, %d open, %d activations, %d commits, 0 overlapping, linearizable",
			keys, s.partitions, s.outages, s.pauses, s.expiries, s.kills, answered, refused, open, lives, commits)
		if answered < keys {
			t.Errorf("%d calls were answered: too few to show anything", answered)
		}
		testkit.NoOrphans(k)
	}, testkit.Nodes(long.Form(3, 5)), testkit.TTL(ttl), testkit.Seed(long.Seed()))
}
