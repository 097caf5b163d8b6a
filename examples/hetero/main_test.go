package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

var (
	figures = flag.String("figures", "", "file to draw the runs of TestPlacements in, of the size that docs/benchmarks.md quotes")
	again   = flag.Bool("update", false, "write testdata/timeline.svg")
)

func TestMain(m *testing.M) { testkit.Main(m) }

// nodes are n without GPUs, and m with one that is made up, of one CPU each.
func nodes(t *testing.T, n, m int) *testkit.Kit {
	return testkit.New(t, testkit.Nodes(n+m), testkit.CPU(1), testkit.Each(func(i int, cfg *system.Config) {
		switch {
		case i > n:
			w, err := devices.Open("fake:v100", devices.Config{Host: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Cluster.Labels, cfg.Devices = map[string]string{"kind": "gpu"}, nil
			for _, d := range w.Inventory().Devices {
				cfg.Devices = append(cfg.Devices, raysys.Device{UUID: d.UUID, Model: d.Model, Memory: d.Memory})
			}
		case i > 0:
			cfg.Cluster.Labels = map[string]string{"kind": "cpu"}
		}
	}))
}

// TestPlacements: rollouts run on the nodes that their placement names and no others, the learner on one with a GPU; whatever the
// placement, the same is learned.
func TestPlacements(t *testing.T) {
	const cpus, gpus = 4, 4
	w := wanted{run: run{Seed: 1, Iterations: 3, Rollouts: 8, Steps: 100}, rounds: 1, names: []string{"split", "symmetric"}, prices: onDemand, svg: *figures}
	if *figures != "" {
		w.Iterations, w.Steps, w.rounds = 10, 1000, 5
	}
	k := nodes(t, cpus, gpus)
	hasGPU := map[raysys.NodeID]bool{}
	for i := 1; i <= cpus+gpus; i++ {
		hasGPU[k.Cluster().Node(i).Name()] = i > cpus
	}
	if w.svg != "" {
		if err := w.do(k.Context(), os.Stdout); err != nil {
			t.Fatal(err)
		}
		return
	}
	results, err := w.measure(k.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range results {
		count := map[string]int{}
		for _, s := range l.Spans {
			count[s.Work]++
			if gpu, known := hasGPU[s.Node]; !known || gpu != (s.Work == "update" || name == "symmetric") {
				t.Errorf("%s: %s %d ran on %s", name, s.Work, s.Iteration, s.Node)
			}
		}
		if want := map[string]int{"rollout": w.Iterations * w.Rollouts, "update": w.Iterations}; !cmp.Equal(want, count) {
			t.Errorf("%s: got %v, want %v", name, count, want)
		}
		if l.Stats.Updates != w.Iterations || l.Weights.Steps != w.Iterations || l.Stats.TotalSteps < w.Iterations*w.Rollouts*w.Steps {
			t.Errorf("%s: %+v after %d iterations, and the weights are of update %d", name, l.Stats, w.Iterations, l.Weights.Steps)
		}
	}
	if !cmp.Equal(results["split"].Weights, results["symmetric"].Weights) {
		t.Error("the two placements have learned different weights")
	}
}

// playedBy: two nodes roll out twice, and a third learns; in symmetric one of the two learns.
func playedBy(learner raysys.NodeID) (list []span) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	add := func(node raysys.NodeID, work string, iteration, from, to int) {
		list = append(list, span{node, work, iteration, at.Add(time.Duration(from) * time.Second), at.Add(time.Duration(to) * time.Second)})
	}
	for i := range 2 {
		base := 10 * i
		add("n1", "rollout", i, base, base+3)
		add("n1", "rollout", i, base+3, base+4)
		add("n2", "rollout", i, base, base+2)
		add(learner, "update", i, base+5, base+6)
	}
	return list
}

// TestCost: an iteration lasts as long as its busiest node's rollouts and its update, and all nodes are paid for so long.
func TestCost(t *testing.T) {
	p := prices{CPU: 1, GPU: 10}
	split := costOf(run{Iterations: 2, Placement: "split"}, playedBy("n3"), p)
	want := cost{CPUNodes: 2, GPUNodes: 1, Busy: 14 * time.Second, Updates: 2 * time.Second, Lasts: 10 * time.Second, Hour: 12}
	if diff := cmp.Diff(want, split); diff != "" {
		t.Errorf("split (-want +got):\n%s", diff)
	}
	symmetric := costOf(run{Iterations: 2, Placement: "symmetric"}, playedBy("n1"), p)
	want.CPUNodes, want.GPUNodes, want.Hour = 0, 2, 20
	if diff := cmp.Diff(want, symmetric); diff != "" {
		t.Errorf("symmetric (-want +got):\n%s", diff)
	}
	if split.used() != 0.2 || symmetric.used() != 0.1 || split.total() != 12*10./3600 {
		t.Errorf("used %g and %g, total %g", split.used(), symmetric.used(), split.total())
	}
	var b bytes.Buffer
	report(&b, []string{"split", "symmetric"}, map[string]cost{"split": split, "symmetric": symmetric})
	if !strings.HasSuffix(b.String(), "symmetric costs 1.67 times as much as split: 1.67 times an hour, for 1.00 times as long\n") {
		t.Errorf("the report is\n%s", b.String())
	}
	if (cost{}).used() != 0 {
		t.Error("no GPU is used, and some of it")
	}
}

// TestTimeline: the drawing of a run is that of testdata/timeline.svg: go test ./examples/hetero -args -update writes it.
func TestTimeline(t *testing.T) {
	const file = "testdata/timeline.svg"
	var b bytes.Buffer
	if err := draw(&b, []string{"split", "nothing", "symmetric"}, map[string][]span{"split": playedBy("n3"), "symmetric": playedBy("<n1>")}); err != nil {
		t.Fatal(err)
	}
	if *again {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the drawing (-want +got):\n%s", diff)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-placement nowhere": `there is no placement "nowhere"`,
		"-iterations 0":      "iterations, rollouts, steps and rounds are 1 or more",
		"-cpu-price -1":      "prices are 0 or more",
		"-bogus":             "flag provided but not defined: -bogus",
		"now":                `hetero takes no argument, and was given "now"`,
	} {
		if _, err := parse(args); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	w, err := parse("-placement split")
	if err == nil {
		err = w.do(testkit.New(t).Context(), io.Discard)
	}
	const want = "split needs nodes with --labels kind=cpu, and one with a GPU for the learner"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("without such nodes: %v, want %q", err, want)
	}
}

// parse parses a command line, as main does.
func parse(args string) (*wanted, error) {
	set := flag.NewFlagSet("hetero", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	w := define(set)
	if err := set.Parse(strings.Fields(args)); err != nil {
		return nil, err
	}
	return w, w.check(set.Args())
}
