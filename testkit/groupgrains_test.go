package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// grainsNow is what grains of lastingGrain have done.
var grainsNow *observed

// lastingGrain is a grain of one call, after which it goes.
type lastingGrain struct{ ran ran }

func (g *lastingGrain) last(ctx context.Context, l lasting) (int, error) {
	g.ran = ran{node: at(ctx), submitted: l.Submitted, began: time.Since(grainsNow.start)}
	select {
	case <-time.After(l.For):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return 0, grains.Deactivate(ctx)
}

func (g *lastingGrain) OnDeactivate(context.Context) error {
	grainsNow.mu.Lock()
	defer grainsNow.mu.Unlock()
	g.ran.end = time.Since(grainsNow.start)
	grainsNow.list = append(grainsNow.list, g.ran)
	return nil
}

// inGroup is a group of bundles on nodes, which together have four times on each what a grain asks for.
type inGroup struct {
	strategy placement.GroupStrategy
	bundles  []raysys.Resources
	holds    []raysys.Option
}

// play runs f with a method of grains that may be in any bundle of the group, on three nodes.
func (c *inGroup) play(t *testing.T, seed testkit.Option, f func(k *testkit.Kit, call func(from int, key string, lasts time.Duration) raysys.Ref[int])) {
	table := raysys.NewTable()
	kind := grains.DefineIn[lastingGrain](table, "lasting", grains.Holds(c.holds...))
	method := grains.Method(kind, "last", (*lastingGrain).last).With(raysys.Deadline(time.Hour))
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		k.Cluster().Ready()
		k.Advance(time.Second)
		g, err := groups.Create(ctx, c.strategy, c.bundles)
		if err == nil {
			err = g.Wait(ctx)
		}
		if err != nil {
			k.T().Fatal(err)
		}
		grainsNow = &observed{start: time.Now()}
		any := method.With(g.AnyBundle())
		call := func(from int, key string, lasts time.Duration) raysys.Ref[int] {
			return any.Call(k.Cluster().Node(from).Context(ctx), kind.Get(key), lasting{time.Since(grainsNow.start), lasts})
		}
		for from := range 4 { // a node looks up a group that it does not know, and then each 20 ms whether it does
			if _, err := call(from, fmt.Sprint("first", from), time.Millisecond).Get(ctx); err != nil {
				k.T().Fatal(err)
			}
		}
		k.Advance(time.Second)
		grainsNow = &observed{start: time.Now()}
		f(k, call)
	}, seed, testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Resources.CPU = 4
			for n := range 4 {
				cfg.Devices = append(cfg.Devices, raysys.Device{UUID: fmt.Sprint("GPU-", i, "-", n), Model: "NVIDIA H100 80GB HBM3", Memory: 80 << 30})
			}
		}
	}))
}

// TestNoGrainWaitsBesideRoomInGroup: of grains that may be in any bundle of a group, which four nodes call in bursts at random times, none
// waits for longer than waitLimit while a bundle has what it holds, on the node where it waits or on another. At times there are more grains
// than room.
func TestNoGrainWaitsBesideRoomInGroup(t *testing.T) {
	for name, c := range map[string]inGroup{
		"one bundle on each node":   {placement.StrictSpread, slices.Repeat([]raysys.Resources{{CPU: 4}}, 3), []raysys.Option{raysys.CPU(1)}},
		"four bundles on each node": {placement.Pack, slices.Repeat([]raysys.Resources{{CPU: 1}}, 12), []raysys.Option{raysys.CPU(1)}},
		"a device":                  {placement.StrictSpread, slices.Repeat([]raysys.Resources{{GPU: 4}}, 3), []raysys.Option{raysys.GPU(1)}},
		"a model": {
			placement.Pack, slices.Repeat([]raysys.Resources{{GPU: 2}}, 6), []raysys.Option{raysys.GPU(1), raysys.GPUModel("H100")},
		},
	} {
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			c.play(t, seed, func(k *testkit.Kit, call func(int, string, time.Duration) raysys.Ref[int]) {
				r := k.Rand()
				var refs []raysys.Ref[int]
				for range 20 {
					from := r.Perm(4)[:1+r.IntN(4)]
					for i := range 1 + r.IntN(12) {
						lasts := 10*time.Millisecond + time.Duration(r.Int64N(int64(600*time.Millisecond)))
						refs = append(refs, call(from[i%len(from)], fmt.Sprint("g", len(refs)), slower()*lasts))
					}
					k.Advance(slower() * time.Duration(r.Int64N(int64(400*time.Millisecond))))
				}
				var err error
				for _, ref := range refs {
					if _, e := ref.Get(k.Context()); e != nil {
						err = errors.Join(err, e)
					}
				}
				k.Advance(time.Second) // the last go
				if err != nil || len(grainsNow.list) != len(refs) {
					k.T().Fatalf("%d of %d grains ran: %v", len(grainsNow.list), len(refs), err)
				}
				d, w, node := grainsNow.waitsBeside(4)
				if d > waitLimit() {
					k.T().Errorf("a grain, called at %v and begun at %v on node %s, waited for %v while a bundle of node %s had room for it",
						w.submitted, w.began, w.node, d, node)
				}
				k.T().Logf("the longest of %d waits beside room: %v", len(refs), d)
			})
		})
	}
}

// TestWaitingGrainsStayInGroup: of many grains that wait for a bundle few go to another node, as many as bundles there get room for, and
// none goes to and fro.
func TestWaitingGrainsStayInGroup(t *testing.T) {
	withSeeds(t, "drawn", grainsStayInGroup)
}

func grainsStayInGroup(t *testing.T, seed testkit.Option) {
	c := inGroup{placement.StrictSpread, slices.Repeat([]raysys.Resources{{CPU: 4}}, 3), []raysys.Option{raysys.CPU(1)}}
	c.play(t, seed, func(k *testkit.Kit, call func(int, string, time.Duration) raysys.Ref[int]) {
		const n = 120
		var refs []raysys.Ref[int]
		for i := range n {
			refs = append(refs, call(i%4, fmt.Sprint("g", i), 100*time.Millisecond+time.Duration(k.Rand().Int64N(int64(900*time.Millisecond)))))
		}
		waiting := func() (on []int) {
			st, err := k.Cluster().Status()
			if err != nil {
				k.T().Fatal(err)
			}
			for _, n := range st.Nodes {
				sum := 0
				for _, d := range n.Demand {
					sum += d.Count
				}
				on = append(on, sum)
			}
			return on
		}
		k.Advance(100 * time.Millisecond)
		before := waiting()
		waited, changes := 0, 0
		for _, w := range before {
			waited += w
		}
		for range long.Form(2500, 5000) {
			k.Advance(2 * time.Millisecond)
			now := waiting()
			for i := range now {
				changes += max(now[i]-before[i], before[i]-now[i])
			}
			before = now
		}
		// Each leaves a line to begin, and once more, with a change of another line, for each move. Each that goes to and fro moves often.
		moves := (changes - waited) / 2
		if waited < n/2 || moves > long.Form(waited, waited/4) {
			k.T().Errorf("%d of %d grains waited, and moved %d times", waited, n, moves)
		}
		k.T().Logf("%d grains waited, and moved %d times", waited, moves)
		for _, r := range refs {
			if _, err := r.Get(k.Context()); err != nil {
				k.T().Error(err)
			}
		}
		k.Advance(time.Second)
	})
}
