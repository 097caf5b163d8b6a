package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// report is what -o json prints.
type report struct {
	MeanReturn   float64 `json:"mean_return"`
	RandomReturn float64 `json:"random_return"`
	Steps        int     `json:"steps"`
	LearnerSteps int     `json:"learner_steps"`
	Actors       int     `json:"actors"`
	Seed         uint64  `json:"seed"`
}

var goal = rl.MeanReturn(100, 0.95)

func reportOf(t *testing.T, k *testkit.Kit, plan rl.Plan) (r report, err error) {
	t.Helper()
	var out bytes.Buffer
	err = train(k.Context(), plan, true, "", &out)
	if err != nil && out.Len() == 0 {
		return r, err
	}
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	return r, err
}

// TestLearns: the same agent learns the same, however many actors it has, and on however many nodes.
func TestLearns(t *testing.T) {
	for _, c := range []struct {
		nodes, actors int
		seeds         uint64
	}{
		{0, 1, long.Form[uint64](3, 5)}, // in one goroutine
		{0, 4, long.Form[uint64](1, 3)}, // grains of one process
		{0, 16, long.Form[uint64](1, 3)},
		{3, 1, long.Form[uint64](1, 3)},
		{3, 4, long.Form[uint64](1, 3)},
		{3, 16, long.Form[uint64](1, 3)},
	} {
		t.Run(fmt.Sprintf("nodes=%d/actors=%d", c.nodes, c.actors), func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(c.nodes))
			for seed := range c.seeds {
				r, err := reportOf(t, k, rl.Plan{Steps: 20_000, Actors: c.actors, Seed: seed + 1, Stop: goal})
				switch {
				case err != nil:
					t.Error(err)
				case r.MeanReturn < 0.95 || r.RandomReturn < -1 || r.RandomReturn > -0.3 || r.Steps > 20_000 || r.LearnerSteps < 1:
					t.Errorf("%+v", r)
				case float64(r.LearnerSteps) > float64(r.Steps-1000)/4+30: // 16 samples of 64 for each step, and the buffer of the limiter
					t.Errorf("%+v: steps were made that do not count", r)
				case r.Actors != c.actors || r.Seed != seed+1:
					t.Errorf("%+v, want seed %d and %d actors", r, seed+1, c.actors)
				}
			}
		})
	}
}

// TestLearnerIsKilled: each process is killed in mid-run, that of the learner among them. The run goes on from a checkpoint, to the same return.
func TestLearnerIsKilled(t *testing.T) {
	p := testkit.Processes(t, 3)
	p.Ready()
	var run *rl.Run
	each := &killer{kill: func(i int) { p.Proc(i).Restart() }}
	run, err := agent.Train(p.Context(), rl.Plan{Steps: 20_000, Actors: 4, Seed: 1, Progress: each})
	if err != nil {
		t.Fatal(err)
	}
	if each.killed != 3 || run.MeanReturn < 0.95 || run.Steps != 20_000 {
		t.Errorf("%d killed, %v", each.killed, run)
	}
	for i, point := range run.Points[1:] {
		if before := run.Points[i]; point.Steps < before.Steps || point.LearnerSteps < before.LearnerSteps || point.Episodes < before.Episodes {
			t.Errorf("a counter went back: %+v, then %+v", before, point)
		}
	}
	t.Log(run)
}

// killer kills one process after the other, at each tenth line of progress.
type killer struct {
	lines, killed int
	kill          func(i int)
}

func (k *killer) Write(b []byte) (int, error) {
	if k.lines++; k.lines%10 == 0 && k.killed < 3 {
		k.killed++
		k.kill(k.killed)
	}
	return len(b), nil
}

func TestRepeats(t *testing.T) {
	k := testkit.New(t)
	var runs [3]report
	for i, seed := range []uint64{1, 1, 2} {
		runs[i], _ = reportOf(t, k, rl.Plan{Steps: 1500, Actors: 1, Seed: seed, Stop: goal})
	}
	if !cmp.Equal(runs[0], runs[1]) || cmp.Equal(runs[0], runs[2]) {
		t.Errorf("of seeds 1, 1 and 2: %+v", runs)
	}
}

// TestNotLearned: the report is made all the same, and the program fails.
func TestNotLearned(t *testing.T) {
	r, err := reportOf(t, testkit.New(t), rl.Plan{Steps: 1100, Actors: 1, Stop: goal})
	if err == nil || !strings.Contains(err.Error(), "not learned: the mean return is") || r.MeanReturn >= 0.95 || r.Steps != 1100 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTextAndPlot: the report, and the drawing.
func TestTextAndPlot(t *testing.T) {
	var out bytes.Buffer
	plot := filepath.Join(t.TempDir(), "catch.svg")
	if err := train(testkit.New(t).Context(), rl.Plan{Steps: 20_000, Actors: 1, Stop: goal}, false, plot, &out); err != nil {
		t.Fatal(err)
	}
	var mean, random float64
	var steps, actors, learner int
	n, err := fmt.Sscanf(out.String(), "mean return %f over fresh episodes (random actions: %f)\n%d steps of the environment (actors: %d), %d of the learner,",
		&mean, &random, &steps, &actors, &learner)
	if n != 5 || mean < 0.95 || random > -0.3 || steps < 1 || actors != 1 || learner < 1 {
		t.Errorf("%q (%d numbers, %v)", out.String(), n, err)
	}
	if drawn, err := os.ReadFile(plot); err != nil || !bytes.Contains(drawn, []byte("<svg")) {
		t.Errorf("the plot is %.100q, %v", drawn, err)
	}
}
