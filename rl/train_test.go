package rl_test

import (
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/testkit"
)

func bandit(seed uint64) rl.Env[int] { return envs.Bandit(seed, 0.1, 0.5, 0.9) }

var chooses = rl.Define("rl-test-arms", rl.Setup[int]{Env: bandit, Agent: arms{}})

// TestSingle: a run in one goroutine finds the best arm, and repeats bit for bit by its seed, with a runtime and without.
func TestSingle(t *testing.T) {
	var runs []*rl.Run
	k := testkit.New(t, testkit.Nodes(0))
	for i, seed := range []uint64{1, 1, 1, 2} {
		ctx := t.Context()
		if i == 1 {
			ctx = k.Context()
		}
		r, err := chooses.Train(ctx, rl.Plan{Steps: 2000, Seed: seed, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if r.MeanReturn < 0.75 || r.RandomReturn > 0.7 || r.Steps != 2000 || r.LearnerSteps < 900 || r.LearnerSteps > 1010 {
			t.Errorf("%+v", r)
		}
		r.Took = 0
		for i := range r.Points {
			r.Points[i].Seconds, r.Points[i].Evaluated, r.Points[i].Age = 0, 0, 0
		}
		r.Points[0].Loss = 0
		runs = append(runs, r)
	}
	for _, r := range runs[1:3] {
		if fmt.Sprint(r) != fmt.Sprint(runs[0]) {
			t.Errorf("%+v\n%+v", r, runs[0])
		}
	}
	if reflect.DeepEqual(runs[0].Weights, runs[3].Weights) {
		t.Error("two seeds make the same run")
	}
}

func TestNodes(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	for _, actors := range []int{1, 4, 16} {
		r, err := chooses.Train(k.Context(), rl.Plan{Steps: 4000, Actors: actors, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d actors: %v %d steps %d learner steps %.2f %d points", actors, r.Took, r.Steps, r.LearnerSteps, r.MeanReturn, len(r.Points))
	}
}
