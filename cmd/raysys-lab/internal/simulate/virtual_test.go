package simulate_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys-lab/internal/simulate"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// nap is on a CPU for a time, and says when it began, in nanoseconds since 1970.
var nap = tasks.Define("nap", func(ctx context.Context, d time.Duration) (int64, error) {
	began := time.Now().UnixNano()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return began, ctx.Err()
})

// TestLikeVirtual: the simulator and nodes in virtual time run the same tasks. The makespans differ by 15 % at most, and so do the
// waits that one task in a hundred exceeds. The short form allows 50 %: a schedule that leaves no CPU idle beside tasks that wait takes
// less than twice the time that any takes (Graham's bound), so that more than that is another rule and not another draw.
func TestLikeVirtual(t *testing.T) {
	clusters := map[string]simulate.Config{
		"a driver and 5 nodes": {Nodes: 5, Tasks: 2000},
		"4 of 20 nodes submit": {Nodes: 20, Tasks: 4000, Submitters: 4},
		"GPUs on 2 of 5 nodes": {Nodes: 5, Tasks: 2000, GPUEvery: 2, GPUs: 2, GPUShare: 0.4},
		"one of 5 nodes dies":  {Nodes: 5, Tasks: 2000, Deaths: 1},
	}
	maps.Copy(clusters, long.Form(nil, map[string]simulate.Config{
		// Of fewer tasks that wait for GPUs at a rate one in a hundred is a matter of draws: the nodes differ from each other by 15 %.
		"75 % of the GPUs of 2 of 5 nodes": {Nodes: 5, Tasks: 20_000, GPUEvery: 2, GPUs: 2, GPUShare: 0.4, Rate: 375},
		"a driver and 20 nodes":            {Nodes: 20, Tasks: 4000},
		"all of 5 nodes submit":            {Nodes: 5, Tasks: 2000, Submitters: 5},
		"tasks at a rate":                  {Nodes: 20, Tasks: 4000, Rate: 3900},
		"GPUs on one of 5 nodes":           {Nodes: 5, Tasks: 2000, GPUEvery: 5, GPUs: 4, GPUShare: 0.1},
		"GPUs on half of 20":               {Nodes: 20, Tasks: 4000, GPUEvery: 2, GPUs: 2, GPUShare: 0.3, Submitters: 4},
		"3 of 20 nodes die":                {Nodes: 20, Tasks: 4000, Deaths: 3, Submitters: 4},
		"75 % of the GPUs of half of 20, 4 submit": {
			Nodes: 20, Tasks: 20_000, GPUEvery: 2, GPUs: 2, GPUShare: 0.4, Submitters: 4, Rate: 1875,
		},
		"75 % of the GPUs of 20, all submit": {Nodes: 20, Tasks: 20_000, GPUEvery: 1, GPUs: 1, GPUShare: 1, Submitters: 20, Rate: 750},
		"90 % of the GPUs of 5, all submit":  {Nodes: 5, Tasks: 20_000, GPUEvery: 1, GPUs: 2, GPUShare: 1, Submitters: 5, Rate: 450},
		"GPUs die":                           {Nodes: 6, Tasks: 2000, GPUEvery: 1, GPUs: 2, GPUShare: 0.5, Deaths: 2},
	}))
	for name, c := range clusters {
		t.Run(name, func(t *testing.T) {
			c.CPUs, c.Mean, c.Seed = 4, 20*time.Millisecond, 7
			c.Latency, c.Report = 100*time.Microsecond, 100*time.Millisecond
			c.Detect = c.Latency // a killed node's connections are reset
			sim, err := simulate.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				makespan, p99 := play(k, c)
				k.T().Logf("makespan %v, simulated %v; p99 of the waits %v, simulated %v", makespan, sim.Makespan, p99, sim.WaitP99)
				differ := func(what string, is, want time.Duration) {
					if off := math.Abs(float64(is)/float64(want) - 1); off > long.Form(0.5, 0.15) {
						k.T().Errorf("%s %v of the nodes, %v of the simulator: %.0f %% off", what, want, is, 100*off)
					}
				}
				differ("makespan", sim.Makespan, makespan)
				differ("p99 of the waits", sim.WaitP99, p99)
			}, testkit.Nodes(c.Nodes), testkit.CPU(float64(c.CPUs)), testkit.Loose(), testkit.Each(func(i int, cfg *system.Config) {
				if c.HasGPUs(i - 1) {
					cfg.Resources.GPU = float64(c.GPUs)
				}
			}))
		})
	}
}

// play runs the tasks of c.
func play(k *testkit.Kit, c simulate.Config) (makespan, p99 time.Duration) {
	cluster := k.Cluster()
	cluster.Ready()
	for i := range c.Nodes + 1 {
		for j := range i {
			cluster.Delay(j, i, c.Latency, 0)
		}
	}
	var submitters []context.Context
	for i := range c.Submitters {
		submitters = append(submitters, cluster.Node(i+1).Context(k.Context()))
	}
	if c.Submitters == 0 {
		submitters = []context.Context{k.Context()}
	}
	train := nap.With(raysys.CPU(0), raysys.GPU(1))
	refs, waits := make([]raysys.Ref[int64], c.Tasks), make([]int64, c.Tasks)
	for i, victim := range c.Victims() {
		time.AfterFunc(c.Death(i), func() { cluster.Kill(victim + 1) })
	}
	from := time.Now().UnixNano()
	for i := range refs {
		if waits[i] = int64(c.Submitted(i)); from+waits[i] > time.Now().UnixNano() {
			k.Advance(time.Duration(from + waits[i] - time.Now().UnixNano()))
		}
		task := nap
		if c.WantsGPU(i) {
			task = train
		}
		refs[i] = task.Go(submitters[i%len(submitters)], c.Takes(i))
	}
	for i, r := range refs {
		began, err := r.Get(submitters[i%len(submitters)])
		if err != nil {
			k.T().Fatalf("task %d: %v", i, err)
		}
		waits[i] = began - from - waits[i]
	}
	slices.Sort(waits)
	return time.Duration(time.Now().UnixNano() - from), time.Duration(waits[len(waits)*99/100])
}
