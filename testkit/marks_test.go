package testkit_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// ran is one task that ran: when it was submitted, began and ended, in virtual time since the test began.
type ran struct {
	node                  string
	submitted, began, end time.Duration
}

// observed is the tasks that ran.
type observed struct {
	mu    sync.Mutex
	start time.Time
	list  []ran
}

type lasting struct {
	Submitted, For time.Duration
}

// lastingTask defines a task that takes as long as it is told, in virtual time, and notes that it ran.
func (o *observed) lastingTask(table *raysys.Table) tasks.Task[lasting, int] {
	return tasks.DefineIn(table, "lasts", func(ctx context.Context, l lasting) (int, error) {
		began := time.Since(o.start)
		<-time.After(l.For)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.list = append(o.list, ran{at(ctx), l.Submitted, began, time.Since(o.start)})
		return 0, nil
	})
}

// idles is the longest time for which a node has had a CPU free, of so many, while a task waited that began later.
func (o *observed) idles(cpus int) (longest time.Duration, where string) {
	type change struct {
		at time.Duration
		n  int
	}
	nodes := map[string][]change{}
	last := time.Duration(0)
	for _, r := range o.list {
		nodes[r.node] = append(nodes[r.node], change{r.began, +1}, change{r.end, -1})
		last = max(last, r.began)
	}
	for node, list := range nodes {
		slices.SortStableFunc(list, func(a, b change) int { return int(a.at - b.at) })
		running, since := 0, time.Duration(0) // since when a CPU has been free
		for _, c := range list {
			if running < cpus {
				if d := min(c.at, last) - since; d > longest {
					longest, where = d, node
				}
			}
			full := running >= cpus
			if running += c.n; full && running < cpus {
				since = c.at
			} else if running < cpus && c.n > 0 {
				since = c.at // a task came for another CPU: what waits next is on its way
			}
		}
	}
	return longest, where
}

// waitsBeside returns the task that waited longest while one node had a device free, of so many, for all that time.
func (o *observed) waitsBeside(devices int) (longest time.Duration, waiter ran, node string) {
	type change struct {
		at time.Duration
		n  int
	}
	nodes := map[string][]change{}
	for _, r := range o.list {
		nodes[r.node] = append(nodes[r.node], change{r.began, +1}, change{r.end, -1})
	}
	for name, list := range nodes {
		slices.SortFunc(list, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.n-b.n) })
		list = append(list, change{list[len(list)-1].at + time.Hour, 0})
		running, since := 0, time.Duration(0) // since when a device has been free
		for _, c := range list {
			if running < devices {
				for _, r := range o.list {
					if d := min(r.began, c.at) - max(r.submitted, since); d > longest {
						longest, waiter, node = d, r, name
					}
				}
			}
			if full := running >= devices; full {
				since = c.at
			}
			running += c.n
		}
	}
	return longest, waiter, node
}

// TestMakespan: 2,000 tasks of 10 to 190 ms on five nodes take little longer than the CPUs need for them, at most 5 % in the long form, and no
// node has a CPU free for waitLimit while one of them waits.
func TestMakespan(t *testing.T) { withSeeds(t, "drawn", makespan) }

func makespan(t *testing.T, seed testkit.Option) {
	table := raysys.NewTable()
	var o observed
	task := o.lastingTask(table)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, r := k.Context(), k.Rand()
		k.Cluster().Ready()
		o.start = time.Now()
		var work time.Duration
		refs := make([]raysys.Ref[int], 2000)
		for i := range refs {
			d := 10*time.Millisecond + time.Duration(r.Int64N(int64(180*time.Millisecond)))
			work += d
			refs[i] = task.Go(ctx, lasting{For: d})
		}
		for _, ref := range refs {
			if _, err := ref.Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if took, ideal := time.Since(o.start), work/20; took > ideal*long.Form[time.Duration](130, 105)/100 {
			t.Errorf("the tasks took %v, %.1f %% more than the %v that 20 CPUs need for them", took, 100*(float64(took)/float64(ideal)-1), ideal)
		}
		if d, node := o.idles(4); d > waitLimit() {
			t.Errorf("node %s had a CPU free for %v while tasks waited", node, d)
		}
	}, seed, testkit.Table(table), testkit.Nodes(5), testkit.CPU(4))
}

// TestShortAmongLong: while tasks of 1 s take half of the CPUs of five nodes, a task of 1 ms does not wait until one of them ends: in the
// long form for 25 ms at most.
func TestShortAmongLong(t *testing.T) { withSeeds(t, "drawn", shortAmongLong) }

func shortAmongLong(t *testing.T, seed testkit.Option) {
	table := raysys.NewTable()
	var o observed
	task := o.lastingTask(table)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, r := k.Context(), k.Rand()
		k.Cluster().Ready()
		o.start = time.Now()
		var refs []raysys.Ref[int]
		add := func(d time.Duration) {
			refs = append(refs, task.Go(ctx, lasting{time.Since(o.start), d}))
		}
		for range 10 {
			add(time.Second)
		}
		for range 180 {
			k.Advance(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
			add(time.Millisecond)
		}
		for _, ref := range refs {
			if _, err := ref.Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range o.list {
			if wait := r.began - r.submitted; wait > long.Form(waitLimit(), 25*time.Millisecond) {
				t.Errorf("a task of %v waited for %v on node %s, while half of the CPUs were free", r.end-r.began, wait, r.node)
			}
		}
	}, seed, testkit.Table(table), testkit.Nodes(5), testkit.CPU(4))
}
