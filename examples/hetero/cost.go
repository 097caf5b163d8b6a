package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/raysys/raysys"
)

// prices are dollars an hour, of a node with a GPU and of one without, which have as many CPUs.
type prices struct{ CPU, GPU float64 }

// onDemand are the list prices of AWS for m5.2xlarge and p3.2xlarge, of 8 virtual CPUs each, as of 2024.
var onDemand = prices{CPU: 0.384, GPU: 3.06}

// cost is what a run takes of its nodes. It is computed: the busy times are measured, and the rest is assumed, namely that nothing
// is waited for but work, that values travel in no time, and that nodes are paid for while the run lasts and no longer.
type cost struct {
	CPUNodes, GPUNodes int
	Busy               time.Duration // of all rollouts and updates
	Updates            time.Duration // of that, updates: what a GPU is for
	Lasts              time.Duration // in each iteration the busiest node's rollouts, and then the update
	Hour               float64       // dollars that the nodes cost in one
}

// total is in dollars.
func (c cost) total() float64 { return c.Hour * c.Lasts.Hours() }

// used is the share of the GPUs' time in which they learn.
func (c cost) used() float64 {
	if c.Lasts == 0 || c.GPUNodes == 0 {
		return 0
	}
	return float64(c.Updates) / float64(c.Lasts) / float64(c.GPUNodes)
}

// costOf takes the nodes that did rollouts, and that of the learner, for all there are.
func costOf(r run, spans []span, p prices) (c cost) {
	rolloutNodes, learnerNodes := map[raysys.NodeID]bool{}, map[raysys.NodeID]bool{}
	for i := range r.Iterations {
		busy := map[raysys.NodeID]time.Duration{}
		for _, s := range spans {
			if s.Iteration != i {
				continue
			}
			c.Busy += s.busy()
			if s.Work == "update" {
				c.Updates, c.Lasts = c.Updates+s.busy(), c.Lasts+s.busy()
				learnerNodes[s.Node] = true
				continue
			}
			busy[s.Node] += s.busy()
			rolloutNodes[s.Node] = true
		}
		if len(busy) > 0 {
			c.Lasts += slices.Max(slices.Collect(maps.Values(busy)))
		}
	}
	if r.Placement == "split" {
		c.CPUNodes, c.GPUNodes = len(rolloutNodes), len(learnerNodes)
	} else {
		maps.Copy(rolloutNodes, learnerNodes)
		c.GPUNodes = len(rolloutNodes)
	}
	c.Hour = float64(c.CPUNodes)*p.CPU + float64(c.GPUNodes)*p.GPU
	return c
}

// report writes the costs of placements in their order, and how the last compares with the first.
func report(to io.Writer, names []string, costs map[string]cost) {
	fmt.Fprintf(to, "%-10s %9s %9s %8s %10s %9s %10s %14s\n", "placement", "CPU nodes", "GPU nodes", "$/hour", "seconds", "busy s", "GPU used", "$ in 1000 runs")
	for _, name := range names {
		c := costs[name]
		fmt.Fprintf(to, "%-10s %9d %9d %8.3f %10.3f %9.3f %9.0f%% %14.3f\n", name, c.CPUNodes, c.GPUNodes, c.Hour, c.Lasts.Seconds(), c.Busy.Seconds(), 100*c.used(), 1000*c.total())
	}
	if first, last := costs[names[0]], costs[names[len(names)-1]]; len(names) > 1 && first.total() > 0 {
		fmt.Fprintf(to, "%s costs %.2f times as much as %s: %.2f times an hour, for %.2f times as long\n", names[len(names)-1], last.total()/first.total(), names[0],
			last.Hour/first.Hour, last.Lasts.Seconds()/first.Lasts.Seconds())
	}
}
