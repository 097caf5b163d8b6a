package placement_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

// TestWaitOfLine: work that asks for other than one CPU, and finds it taken, waits for as long as its node says of its line, whatever
// plain tasks take there; plain tasks, and work that fits, do not.
func TestWaitOfLine(t *testing.T) {
	taken := placement.Node{
		Total: raysys.Resources{CPU: 4, GPU: 1, Memory: 8, Custom: map[string]float64{"licence": 1}}, MeanTask: 2 * time.Millisecond, Line: time.Hour,
	}
	free := taken
	free.Free = free.Total
	queue := taken
	queue.Queued, queue.Line = 4000, time.Second
	for _, c := range []struct {
		name  string
		node  placement.Node
		needs raysys.Resources
		want  time.Duration
	}{
		{"a device", taken, raysys.Resources{CPU: 1, GPU: 1}, time.Hour},
		{"a share of one", taken, raysys.Resources{GPU: 0.1}, time.Hour},
		{"memory", taken, raysys.Resources{CPU: 1, Memory: 1}, time.Hour},
		{"a custom resource", taken, raysys.Resources{CPU: 1, Custom: map[string]float64{"licence": 1}}, time.Hour},
		{"two CPUs", taken, raysys.Resources{CPU: 2}, time.Hour},
		{"one CPU", taken, raysys.Resources{CPU: 1}, time.Millisecond},
		{"nothing", taken, raysys.Resources{}, 0},
		{"it is free", free, raysys.Resources{CPU: 1, GPU: 1}, 0},
		{"the queue of plain tasks is longer", queue, raysys.Resources{CPU: 2}, 2*time.Second + time.Millisecond},
	} {
		if got := c.node.Wait(c.needs); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPlaceByLine: a task for a device is placed where the line is done with first, and the time to move its inputs is weighed against
// that.
func TestPlaceByLine(t *testing.T) {
	node := func(id raysys.NodeID, free float64, line time.Duration) placement.Node {
		n := deviceNode(id, aDevice("H100", free, 80))
		n.Line, n.Bandwidth = line, 1000*mib
		return n
	}
	for _, c := range []struct {
		name  string
		nodes []placement.Node
		want  raysys.NodeID
	}{
		{"the device is free", []placement.Node{node("a", 1, 0), node("b", 1, 0)}, "a"},
		{"another is free", []placement.Node{node("a", 0, time.Hour), node("b", 1, 0)}, "b"},
		{"another has a short line", []placement.Node{node("a", 0, time.Hour), node("b", 0, time.Second)}, "b"},
		{"the line is shorter than the way", []placement.Node{node("a", 0, 50*time.Millisecond), node("b", 1, 0)}, "a"},
		{"no other line is shorter", []placement.Node{node("a", 0, time.Hour), node("b", 0, time.Hour)}, "a"},
	} {
		for seed := range uint64(20) {
			d, err := placement.Place(placement.NewView("self", c.nodes), placement.Request{
				Kind: placement.Task, Needs: raysys.Resources{GPU: 1}, Seed: seed,
				Inputs: placement.Inputs{Bytes: 100 * mib, At: map[raysys.NodeID]int64{"a": 100 * mib}},
			})
			if err != nil || d.Node != c.want {
				t.Fatalf("%s: seed %d: %+v, %v; want %s", c.name, seed, d, err, c.want)
			}
		}
	}
}
