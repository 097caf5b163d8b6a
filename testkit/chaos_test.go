package testkit_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/testkit"
)

// TestPlanRepeats: a seed gives one plan, another seed another; a plan has the faults asked for, on nodes there are.
func TestPlanRepeats(t *testing.T) {
	const ttl, length = 10 * time.Second, 10 * time.Minute
	seen := map[testkit.Fault]bool{}
	for seed := range uint64(20) {
		p := testkit.DrawPlan(seed, 3, ttl, length)
		if again := testkit.DrawPlan(seed, 3, ttl, length); !cmp.Equal(p, again) {
			t.Fatalf("seed %d drew two plans:\n%v\n%v", seed, p, again)
		}
		if other := testkit.DrawPlan(seed+1, 3, ttl, length); cmp.Equal(p, other) {
			t.Errorf("seeds %d and %d drew one plan", seed, seed+1)
		}
		for i, e := range p {
			seen[e.Fault] = true
			if e.Number != i || i > 0 && e.At < p[i-1].At || e.At > length+3*ttl || e.For < 0 || len(e.Nodes) > 3 {
				t.Errorf("seed %d, event %d of the plan: %+v", seed, i, e)
			}
			for _, n := range e.Nodes {
				if n < 0 || n > 3 {
					t.Errorf("seed %d: %v is of a node that there is not", seed, e)
				}
			}
			if e.Fault != testkit.FaultPartition && e.Fault != testkit.FaultOutage && (len(e.Nodes) > 0 && e.Nodes[0] == 0) {
				t.Errorf("seed %d: %v ends the test's own node", seed, e)
			}
		}
	}
	for _, f := range testkit.Faults() {
		if !seen[f] {
			t.Errorf("20 plans of %v have no %s", length, f)
		}
	}
	for _, e := range testkit.DrawPlan(1, 5, ttl, length, testkit.FaultKill, testkit.FaultLose) {
		if e.Fault != testkit.FaultKill && e.Fault != testkit.FaultLose {
			t.Errorf("%v was not asked for", e)
		}
	}
}

// TestPlanOnly: events keep their numbers, by which a smaller plan is asked for.
func TestPlanOnly(t *testing.T) {
	p := testkit.DrawPlan(1, 3, 10*time.Second, time.Minute)
	few := p.Only(1, 4)
	if len(few) != 2 || !cmp.Equal(few[0], p[1]) || !cmp.Equal(few[1], p[4]) || !strings.Contains(few.String(), "  4 ") {
		t.Errorf("events 1 and 4 of\n%vare\n%v", p, few)
	}
	if !cmp.Equal(few.Only(4), p.Only(4)) || len(p.Only()) != 0 {
		t.Error("a smaller plan of a smaller plan is another")
	}
}

// TestChaos: clients go on while faults happen, and afterwards the cluster is whole and the history linearizable.
func TestChaos(t *testing.T) { withSeeds(t, "drawn", chaosOfSeed) }

func chaosOfSeed(t *testing.T, seed testkit.Option) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		h, over := testkit.NewHistory(), make(chan struct{})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(300 * time.Millisecond):
					}
					ctx, cancel := context.WithTimeout(k.Context(), 3*time.Second)
					op := h.Begin(i, "chaos", testkit.Add(1))
					n, err := add.Call(ctx, counters.Get("chaos"), 1).Get(ctx)
					op.End(n, err)
					cancel()
				}
			})
		}
		p := testkit.Chaos(k, 30*time.Second, testkit.FaultDelay, testkit.FaultKill, testkit.FaultSlowDisk)
		close(over)
		wg.Wait()
		for i := range c.Size() {
			if c.Node(i+1) == nil {
				t.Errorf("n%d is down after the plan:\n%v", i+1, p)
			}
		}
		if played := c.Played(); played[testkit.FaultKill] == 0 || played[testkit.FaultLose] > 0 {
			t.Errorf("faults took effect so often: %v, under the plan\n%v", played, p)
		}
		if answered, _, _ := h.Counts(); answered == 0 || !slices.ContainsFunc(p, func(e testkit.Event) bool { return e.Fault == testkit.FaultKill }) {
			t.Errorf("%d calls were answered under\n%v", answered, p)
		}
	}, seed, testkit.Table(table), testkit.Nodes(3))
}

// TestPlayed: a fault counts when it took effect, and only then.
func TestPlayed(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		c.Play(testkit.Plan{
			{At: time.Second, For: 10 * time.Second, Fault: testkit.FaultDelay, Nodes: []int{1, 2}, By: 20 * time.Millisecond},
			{At: 2 * time.Second, For: time.Second, Fault: testkit.FaultKill, Nodes: []int{2}},
		})
		if played := c.Played(); len(played) != 2 || played[testkit.FaultKill] != 1 || played[testkit.FaultDelay] == 0 {
			t.Errorf("faults took effect so often: %v, of one delay and one kill", played)
		}
	})
}

// TestStoreComesBackForANodeThatJoins: StoreUp is also for a node that waits for the store to join.
func TestStoreComesBackForANodeThatJoins(t *testing.T) {
	inVirtual(t, func(t testing.TB, k *testkit.Kit, c *testkit.Cluster) {
		c.Play(testkit.Plan{
			{At: time.Second, For: 5 * time.Second, Fault: testkit.FaultOutage},
			{At: 2 * time.Second, For: time.Second, Fault: testkit.FaultKill, Nodes: []int{1}},
		})
		if c.Node(1) == nil {
			t.Error("n1, which was started while the store was away, has not joined")
		}
		c.Ready()
	})
}
