package testkit_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// span is when a task was submitted, began and ended, since the start.
type span struct{ Submitted, Began, Ended time.Duration }

// TestTasksAtARate: six nodes of four CPUs submit tasks for 80 % of the CPUs. The waits that one in a hundred exceeds are 10 ms longer at most
// than those with one queue for all CPUs, and no task waits 50 ms while a CPU is free somewhere. So it is while nodes owe word to one that dies, or that drains.
func TestTasksAtARate(t *testing.T) {
	const nodes, cpus, mean = 6, 4, 100 * time.Millisecond
	took := long.Form(10*time.Second, time.Minute)
	type job struct{ From, Takes time.Duration }
	table := raysys.NewTable()
	var zero time.Time
	var left time.Duration // when a node died or began to drain
	work := tasks.DefineIn(table, "work", func(ctx context.Context, j job) (span, error) {
		began := time.Since(zero)
		select {
		case <-time.After(j.Takes):
		case <-ctx.Done():
			return span{}, ctx.Err()
		}
		if raysys.Attempt(ctx) > 1 { // it ran on the node that died, and did not wait
			j.From = max(j.From, left)
		}
		return span{j.From, began, time.Since(zero)}, nil
	})
	for name, c := range map[string]struct {
		leaves func(*testkit.Cluster)
		load   float64 // of the CPUs of all
		left   float64 // of the CPUs, when it has left
	}{
		"all stay":   {load: 0.8, left: 1},
		"one dies":   {func(c *testkit.Cluster) { c.Kill(nodes) }, 0.75, 5. / 6},
		"one drains": {func(c *testkit.Cluster) { c.Drain(nodes) }, 0.75, 5. / 6},
	} {
		play := func(t *testing.T, seed testkit.Option) (spans []span) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, cluster, draw := k.T(), k.Cluster(), k.Rand()
				cluster.Ready()
				for i := range nodes + 1 {
					for j := range i {
						cluster.Delay(j, i, 100*time.Microsecond, 0)
					}
				}
				from := nodes // who leaves submits nothing
				if c.leaves != nil {
					from--
					time.AfterFunc(took/2, func() {
						left = time.Since(zero)
						c.leaves(cluster)
					})
				}
				var of []context.Context
				for i := range from {
					of = append(of, cluster.Node(i+1).Context(k.Context()))
				}
				zero = time.Now()
				var refs []raysys.Ref[span]
				for at := time.Duration(0); at < took; at += time.Duration(float64(mean) / (c.load * c.left * nodes * cpus)) {
					k.Advance(at - time.Since(zero))
					takes := time.Duration(draw.ExpFloat64() * float64(mean))
					refs = append(refs, work.Go(of[draw.IntN(from)], job{time.Since(zero), takes}))
				}
				for i, r := range refs {
					s, err := r.Get(k.Context())
					if err != nil {
						t.Fatalf("task %d: %v", i, err)
					}
					spans = append(spans, s)
				}
			}, seed, testkit.Table(table), testkit.Nodes(nodes), testkit.CPU(cpus), testkit.Loose())
			return spans
		}
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			spans := play(t, seed)
			waits := make([]time.Duration, len(spans))
			for i, s := range spans {
				waits[i] = s.Began - s.Submitted
			}
			slices.Sort(waits)
			beside := longestBeside(spans, int(math.Round(c.left*nodes*cpus)))
			t.Logf("%d tasks: waits p50 %v, p99 %v, longest %v, %v of it beside a free CPU", len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1], beside)
			least := leastWaits(spans, int(math.Round(c.left*nodes*cpus)))
			if p99, least := waits[len(waits)*99/100], least[len(least)*99/100]; p99 > least+10*time.Millisecond {
				t.Errorf("one wait in a hundred is longer than %v, and %v where all CPUs take from one queue: want 10 ms more at most", p99, least)
			}
			if beside >= 50*time.Millisecond {
				t.Errorf("a task waited %v beside a free CPU", beside)
			}
		})
	}
}

// leastWaits are the waits of the same tasks where all CPUs take from one queue, in order.
func leastWaits(spans []span, cpus int) (waits []time.Duration) {
	free := make([]time.Duration, cpus) // when each is
	for _, s := range slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.Submitted, b.Submitted) }) {
		i := slices.Index(free, slices.Min(free))
		began := max(s.Submitted, free[i])
		free[i] = began + s.Ended - s.Began
		waits = append(waits, began-s.Submitted)
	}
	slices.Sort(waits)
	return waits
}

// longestBeside is for how long at a stretch a task waited while fewer tasks ran than there are CPUs.
func longestBeside(spans []span, cpus int) (longest time.Duration) {
	type change struct {
		at      time.Duration
		running int
	}
	var changes []change
	for _, s := range spans {
		changes = append(changes, change{s.Began, +1}, change{s.Ended, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.running-b.running) })
	type stretch struct{ from, to time.Duration }
	var free []stretch // in which a CPU is free
	running, since := 0, time.Duration(0)
	for _, c := range changes {
		if running < cpus && running+c.running >= cpus {
			free = append(free, stretch{since, c.at})
		} else if running >= cpus && running+c.running < cpus {
			since = c.at
		}
		running += c.running
	}
	for _, s := range spans {
		for _, f := range free {
			longest = max(longest, min(s.Began, f.to)-max(s.Submitted, f.from))
		}
	}
	return longest
}
