package testkit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// longest is how long a task of a stream lasts at most.
const longest = time.Second

// within is how soon a group has its room beside a stream: it waits for core.AgeStep, and what runs then ends. In the short form the first
// gathering, of 30 s, may not end before that.
func within() time.Duration { return core.AgeStep + longest + long.Form(25*time.Second, 2*time.Second) }

// stream keeps several tasks in flight, more than there is room for, which last for up to longest, until stop is called.
func stream(t testing.TB, k *testkit.Kit, task tasks.Task[time.Duration, int], inFlight int) (stop func()) {
	ctx, cancel := context.WithCancel(k.Context())
	var all sync.WaitGroup
	lasts := make([][]time.Duration, inFlight)
	for i := range lasts {
		for range 64 {
			lasts[i] = append(lasts[i], longest/10+time.Duration(k.Rand().Int64N(int64(longest-longest/10))))
		}
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, err := task.Go(ctx, lasts[i][n%len(lasts[i])]).Get(ctx)
				if err != nil && ctx.Err() == nil && !errors.Is(err, raysys.ErrOutcomeUnknown) && !errors.Is(err, raysys.ErrUnreachable) {
					t.Errorf("a task of the stream: %v", err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// defineLasts defines the task of a stream.
func defineLasts(table *raysys.Table) tasks.Task[time.Duration, int] {
	return tasks.DefineIn(table, "lasts", func(ctx context.Context, d time.Duration) (int, error) {
		select {
		case <-time.After(d): // virtual
		case <-ctx.Done():
		}
		return 0, nil
	})
}

// wanted is a group that a test makes.
type wanted struct {
	strategy placement.GroupStrategy
	bundles  []raysys.Resources
}

func bundles(n int, r raysys.Resources) []raysys.Resources {
	return slices.Repeat([]raysys.Resources{r}, n)
}

// TestGroupsBesideAStream: a group that takes much of a node, or of each, gets its room although small tasks come without an end and
// take whatever becomes free. So do two at once. Later all is free.
func TestGroupsBesideAStream(t *testing.T) {
	four := raysys.Resources{CPU: 4}
	gpus := []raysys.Option{raysys.CPU(0), raysys.GPU(1)}
	for name, c := range map[string]struct {
		alone  bool // in one process
		asks   []raysys.Option
		groups []wanted
	}{
		"all of one node":           {groups: []wanted{{placement.StrictPack, bundles(2, raysys.Resources{CPU: 2})}}},
		"all of each node":          {groups: []wanted{{placement.Spread, bundles(3, four)}}},
		"small bundles everywhere":  {groups: []wanted{{placement.StrictSpread, bundles(3, raysys.Resources{CPU: 1})}}},
		"packed on two nodes":       {groups: []wanted{{placement.Pack, bundles(4, raysys.Resources{CPU: 2})}}},
		"the devices of a node":     {asks: gpus, groups: []wanted{{placement.StrictPack, bundles(1, raysys.Resources{GPU: 4})}}},
		"the devices of each node":  {asks: gpus, groups: []wanted{{placement.Spread, bundles(6, raysys.Resources{GPU: 2})}}},
		"two that want all":         {groups: []wanted{{placement.StrictSpread, bundles(3, raysys.Resources{CPU: 2})}, {placement.Spread, bundles(3, raysys.Resources{CPU: 2})}}},
		"two that want one node":    {groups: []wanted{{placement.StrictPack, bundles(1, four)}, {placement.StrictPack, bundles(1, four)}}},
		"one node alone":            {alone: true, groups: []wanted{{placement.StrictPack, bundles(2, raysys.Resources{CPU: 2})}}},
		"devices of one node alone": {alone: true, asks: gpus, groups: []wanted{{placement.Pack, bundles(1, raysys.Resources{GPU: 3})}}},
	} {
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			table := raysys.NewTable()
			task := defineLasts(table).With(c.asks...)
			opts := []testkit.Option{seed, testkit.Table(table)}
			if c.alone {
				opts = []testkit.Option{seed, testkit.Config(system.Config{Table: table, Resources: raysys.Resources{CPU: 4, GPU: 4}})}
			} else {
				opts = append(opts, testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
					if i > 0 {
						cfg.Resources = raysys.Resources{CPU: 4, GPU: 4}
					}
				}))
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, ctx := k.T(), k.Context()
				stop := stream(t, k, task, 30)
				defer stop()
				k.Advance(5 * time.Second)
				began := time.Now()
				var made []groups.Group
				for _, w := range c.groups {
					g, err := groups.Create(ctx, w.strategy, w.bundles)
					if err != nil {
						t.Fatal(err)
					}
					made = append(made, g)
				}
				for i, g := range made {
					waits(t, ctx, g, within()-time.Since(began))
					t.Logf("group %d has its room after %v", i, time.Since(began))
				}
				for _, g := range made {
					if err := g.Remove(ctx); err != nil {
						t.Fatal(err)
					}
				}
				stop()
				if c.alone {
					allIsFree(t, k, 1)
				} else {
					allIsFree(t, k, 3)
				}
			}, opts...)
		})
	}
}

// waits fails the test where a group has not got all of its room in time.
func waits(t testing.TB, ctx context.Context, g groups.Group, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := g.Wait(ctx); err != nil {
		t.Fatalf("a group beside a stream of small tasks: %v", err)
	}
}

// allIsFree fails the test where nodes of 4 CPUs and 4 GPUs, on which nothing runs, have not got all of that free.
func allIsFree(t testing.TB, k *testkit.Kit, nodes int) {
	t.Helper()
	k.Advance(time.Second) // they have told their loads
	g, err := groups.Create(k.Context(), placement.StrictSpread, bundles(nodes, raysys.Resources{CPU: 4, GPU: 4}))
	if err != nil {
		t.Fatal(err)
	}
	waits(t, k.Context(), g, long.Form(5*time.Second, time.Second)) // what is gathered for nothing is kept for 8 s after the last question
	if err := g.Remove(k.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestGatheringIsDisturbed: while nodes gather room for a group one of them dies, among them the leader, or drains: the group gets its room
// on others, and nothing is kept for it elsewhere. Or the group is removed: then what was gathered is free at once.
func TestGatheringIsDisturbed(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(c *testkit.Cluster)
		left int
	}{
		"n1 dies":   {func(c *testkit.Cluster) { c.Kill(1) }, 3},
		"n2 dies":   {func(c *testkit.Cluster) { c.Kill(2) }, 3},
		"n3 dies":   {func(c *testkit.Cluster) { c.Kill(3) }, 3},
		"n4 dies":   {func(c *testkit.Cluster) { c.Kill(4) }, 3},
		"n1 drains": {func(c *testkit.Cluster) { c.Drain(1) }, 3},
		"n2 drains": {func(c *testkit.Cluster) { c.Drain(2) }, 3},
		"removed":   {nil, 4},
	} {
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			table := raysys.NewTable()
			task := defineLasts(table)
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, ctx := k.T(), k.Context()
				stop := stream(t, k, task, 40)
				defer stop()
				k.Advance(5 * time.Second)
				g, err := groups.Create(ctx, placement.StrictSpread, bundles(3, raysys.Resources{CPU: 4}))
				if err != nil {
					t.Fatal(err)
				}
				gathers(t, k)
				began := time.Now()
				if c.do != nil {
					c.do(k.Cluster())
					waits(t, ctx, g, 10*time.Second+within()+2*time.Second) // the death is noticed, and the leader counts anew
					t.Logf("the group has its room after %v", time.Since(began))
				}
				if err := g.Remove(ctx); err != nil {
					t.Fatal(err)
				}
				stop()
				allIsFree(t, k, c.left)
			}, seed, testkit.Table(table), testkit.Nodes(4), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Resources = raysys.Resources{CPU: 4, GPU: 4}
				}
			}))
		})
	}
}

// gathers waits until nodes gather room for the one group that there is: status says so before it has it.
func gathers(t testing.TB, k *testkit.Kit) {
	t.Helper()
	for since := time.Now(); ; k.Advance(50 * time.Millisecond) {
		st, err := k.Cluster().Status()
		if err == nil && len(st.Groups) == 1 && st.Groups[0].Gathering == 1 {
			return
		}
		if time.Since(since) > within() {
			t.Fatalf("no node gathers room for a group: the groups that wait are %+v, %v", st.Groups, err)
		}
	}
}
