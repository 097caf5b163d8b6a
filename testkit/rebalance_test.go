package testkit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// nomad notes in its test what it is called with.
type nomad struct{}

// nomads are the grains of a test, and what became of the calls to them.
type nomads struct {
	kind grains.Kind[nomad]
	note grains.Func[nomad, stride, raysys.NodeID]

	mu   sync.Mutex
	last map[stride]int // by grain and caller
	out  []string       // calls out of their order
}

// stride is the number of a call, of a caller to a grain.
type stride struct{ Grain, Caller, Number int }

func newNomads() (*raysys.Table, *nomads) {
	table, m := raysys.NewTable(), &nomads{last: map[stride]int{}}
	m.kind = grains.DefineIn[nomad](table, "nomad", grains.Movable(), grains.IdleAfter(24*time.Hour))
	m.note = grains.Method(m.kind, "note", func(_ *nomad, ctx context.Context, s stride) (raysys.NodeID, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		by := stride{Grain: s.Grain, Caller: s.Caller}
		if last := m.last[by]; s.Number != last+1 {
			m.out = append(m.out, fmt.Sprintf("%+v after %d", s, last))
		}
		m.last[by] = s.Number
		return raysys.NodeID(at(ctx)), nil
	})
	return table, m
}

// load is calls to grains by several callers, each of which makes a burst of calls and then waits for their answers.
type load struct {
	m       *nomads
	grains  int
	callers int
	pick    func(rng *rand.Rand) int // the grain of the next call
	every   time.Duration            // between two bursts of a caller
	burst   int

	calls, failed atomic.Int64
	mu            sync.Mutex
	at            map[raysys.NodeID]int // where the calls ran, since the last look
}

// run calls until stop is closed.
func (l *load) run(k *testkit.Kit, stop chan struct{}) (wait func()) {
	var all sync.WaitGroup
	l.at = map[raysys.NodeID]int{}
	for caller := range l.callers {
		rng := rand.New(rand.NewPCG(k.Seed(), uint64(caller)))
		all.Go(func() {
			ctx := k.Cluster().Node(0).Context(context.Background())
			numbers := make([]int, l.grains)
			for {
				var refs []raysys.Ref[raysys.NodeID]
				for range l.burst {
					g := l.pick(rng)
					numbers[g]++
					refs = append(refs, l.m.note.Call(ctx, l.m.kind.Get(fmt.Sprint(g)), stride{g, caller, numbers[g]}))
				}
				for _, r := range refs {
					node, err := r.Get(ctx)
					l.calls.Add(1)
					if err != nil {
						l.failed.Add(1)
						k.T().Errorf("a call: %v", err)
						return
					}
					l.mu.Lock()
					l.at[node]++
					l.mu.Unlock()
				}
				select {
				case <-stop:
					return
				case <-time.After(l.every):
				}
			}
		})
	}
	return all.Wait
}

// where is where the calls have run since the last look.
func (l *load) where() (at map[raysys.NodeID]int, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, l.at = l.at, map[raysys.NodeID]int{}
	for _, n := range at {
		all += n
	}
	return at, all
}

// moved is how many grains have moved from nodes that run, and what these say of their balance.
func moved(t testing.TB, c *testkit.Cluster) (n uint64, list []inspect.GrainBalance) {
	t.Helper()
	s, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range s.Nodes {
		if node.Balance != nil {
			n += node.Balance.Moved
			list = append(list, *node.Balance)
		}
	}
	return n, list
}

// TestAFourthNodeGetsItsShare: a node that joins three others has a fifth to three tenths of the calls a minute later. No call fails, none runs
// out of its caller's order, and hardly more grains move than have to.
func TestAFourthNodeGetsItsShare(t *testing.T) {
	table, m := newNomads()
	testkit.Virtual(t, func(k *testkit.Kit) {
		c := k.Cluster()
		c.Kill(4)
		k.Advance(time.Minute)
		l := &load{m: m, grains: 400, callers: 4, every: 100 * time.Millisecond, burst: 25, pick: func(rng *rand.Rand) int { return rng.IntN(400) }}
		stop := make(chan struct{})
		wait := l.run(k, stop)
		k.Advance(70 * time.Second) // then the grains are old enough to move
		before, _ := moved(t, c)
		c.Restart(4)
		k.Advance(time.Minute)
		l.where()
		k.Advance(10 * time.Second)
		at, all := l.where()
		close(stop)
		wait()
		after, list := moved(t, c)
		share := float64(at["n4"]) / float64(all)
		t.Logf("n4 has %.3f of the calls, %d grains have moved, %d calls: %+v", share, after-before, l.calls.Load(), list)
		if share < 0.2 || share > 0.3 {
			t.Errorf("the fourth node has %.3f of the calls: %v", share, at)
		}
		if before != 0 || after < 80 || after > 130 {
			t.Errorf("%d grains had moved before, and %d since; 100 of 400 are the least", before, after-before)
		}
		if len(m.out) > 0 || l.calls.Load() < 100_000 {
			t.Errorf("%d calls, of which %d are out of order: %v", l.calls.Load(), len(m.out), m.out[:min(len(m.out), 5)])
		}
	}, testkit.Nodes(4), testkit.Table(table), testkit.Loose())
}

// TestARollMovesOnce: while four nodes drain, end and start again one after the other, no grain moves to even out the load. When all are back
// each gets its share, by about as few moves as that takes.
func TestARollMovesOnce(t *testing.T) {
	table, m := newNomads()
	testkit.Virtual(t, func(k *testkit.Kit) {
		c := k.Cluster()
		k.Advance(40 * time.Second)
		l := &load{m: m, grains: 400, callers: 2, every: 100 * time.Millisecond, burst: 40, pick: func(rng *rand.Rand) int { return rng.IntN(400) }}
		stop := make(chan struct{})
		wait := l.run(k, stop)
		k.Advance(70 * time.Second)
		for i := 1; i <= 4; i++ {
			c.Drain(i)
			k.Advance(10 * time.Second)
			c.Restart(i)
			k.Advance(20 * time.Second)
			if n, list := moved(t, c); n != 0 {
				t.Errorf("in the roll %d grains have moved: %+v", n, list)
			}
		}
		l.where()
		k.Advance(5 * time.Second)
		at, all := l.where()
		over := 0.0 // the part of the calls that other nodes are to get
		for _, n := range at {
			over += max(0, float64(n)/float64(all)-0.25)
		}
		k.Advance(3 * time.Minute)
		l.where()
		k.Advance(10 * time.Second)
		after, all := l.where()
		close(stop)
		wait()
		n, list := moved(t, c)
		t.Logf("%d grains have moved; %.3f of the calls were to: %v, then %v", n, over, at, after)
		for _, node := range []raysys.NodeID{"n1", "n2", "n3", "n4"} {
			if share := float64(after[node]) / float64(all); share > 0.25*1.3 {
				t.Errorf("%s has %.3f of the calls: %+v", node, share, list)
			}
		}
		if float64(n) > 1.3*over*400+1 || n == 0 {
			t.Errorf("%d grains have moved, of 400; %.3f of the calls were above a node's share", n, over)
		}
		if len(m.out) > 0 {
			t.Errorf("out of order: %v", m.out[:min(len(m.out), 5)])
		}
	}, testkit.Nodes(4), testkit.Table(table), testkit.Loose())
}

// TestNoiseMovesNothing: in an hour of calls that change by chance, to grains that are called by very different numbers, hardly any
// grain moves.
func TestNoiseMovesNothing(t *testing.T) {
	table, m := newNomads()
	testkit.Virtual(t, func(k *testkit.Kit) {
		c := k.Cluster()
		l := &load{m: m, grains: 1000, callers: 2, every: time.Second, burst: 110, pick: func(rng *rand.Rand) int {
			return min(int(1000*rng.Float64()*rng.Float64()), 999)
		}}
		stop := make(chan struct{})
		wait := l.run(k, stop)
		k.Advance(5 * time.Minute) // where grains were placed by their number, those with more calls may move once
		before, _ := moved(t, c)
		k.Advance(time.Hour)
		after, list := moved(t, c)
		close(stop)
		wait()
		t.Logf("%d grains had moved before, and %d since: %+v", before, after-before, list)
		if after-before > 10 {
			t.Errorf("in an hour %d of 1000 grains have moved: %+v", after-before, list)
		}
	}, testkit.Nodes(2), testkit.Table(table), testkit.Loose())
}

// pouch is a durable grain that counts.
type pouch struct{ Sum grains.State[int] }

// TestMovesUnderKills: durable grains move while nodes are killed and cut off by a drawn plan: each call counts once.
func TestMovesUnderKills(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[pouch](table, "pouch", grains.Durable())
	add := grains.Method(kind, "add", func(p *pouch, _ context.Context, n int) (int, error) {
		p.Sum.Value += n
		return p.Sum.Value, nil
	}).With(raysys.Deadline(10 * time.Minute))
	testkit.Virtual(t, func(k *testkit.Kit) {
		c, ctx := k.Cluster(), k.Context()
		const keys = 60
		var sums [keys]atomic.Int64
		var uneven atomic.Bool // half of the grains have most of the calls: those that a node which comes back may get
		stop := make(chan struct{})
		var callers sync.WaitGroup
		for w := range 3 {
			rng := rand.New(rand.NewPCG(k.Seed(), uint64(w)))
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(40 * time.Millisecond):
					}
					var refs []raysys.Ref[int]
					var of []int
					for range 5 {
						key := rng.IntN(keys)
						if uneven.Load() && rng.IntN(4) > 0 {
							key /= 4
						}
						of = append(of, key)
						refs = append(refs, add.Call(ctx, kind.Get(fmt.Sprint(key)), 1))
					}
					for i, r := range refs {
						if _, err := r.Get(ctx); err != nil {
							t.Errorf("a durable call: %v", err)
							return
						}
						sums[of[i]].Add(1)
					}
				}
			})
		}
		total := uint64(0)
		for round := range 3 {
			k.Advance(70 * time.Second)
			uneven.Store(round%2 == 1)
			plan := testkit.DrawPlan(k.Seed()+uint64(round), 3, 10*time.Second, 30*time.Second, testkit.FaultKill, testkit.FaultPartition, testkit.FaultReset)
			c.Play(plan)
			c.Heal()
			k.Advance(10 * time.Second)
			n, _ := moved(t, c)
			total = max(total, n)
		}
		k.Advance(time.Minute)
		n, _ := moved(t, c)
		total = max(total, n)
		close(stop)
		callers.Wait()
		calls := int64(0)
		for key := range keys {
			got, err := add.Call(ctx, kind.Get(fmt.Sprint(key)), 0).Get(ctx)
			if want := sums[key].Load(); err != nil || int64(got) != want {
				t.Errorf("pouch %d has %d after %d calls: %v", key, got, want, err)
			}
			calls += sums[key].Load()
		}
		t.Logf("%d calls, %d grains have moved", calls, total)
		if total == 0 {
			t.Error("no grain has moved")
		}
	}, testkit.Nodes(3), testkit.Table(table), testkit.Each(func(_ int, cfg *system.Config) { cfg.Rebalance = time.Second }))
}
