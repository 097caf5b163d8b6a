package rl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
)

var lift = rl.Define("guide.lift", rl.Setup[int]{
	Env:   NewLift,
	Agent: dqn.New(dqn.Config{NStep: 5, Prioritised: true}),
})

var swing = rl.Define("guide.swing", rl.Setup[[]float32]{Env: envs.Pendulum, Agent: ppo.New(ppo.Config{})})

func TestDeep(t *testing.T) {
	ctx, log := t.Context(), filepath.Join(t.TempDir(), "lift.csv")
	run, err := lift.Train(ctx, rl.Plan{Steps: 40_000, Stop: rl.MeanReturn(100, 0.8), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(run)
	if !run.Solved || run.MeanReturn < 0.7 {
		t.Errorf("%+v", run)
	}
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "\n") != len(run.Points)+1 {
		t.Errorf("%s %v", text, err)
	}
	serve(t, run)
}

func serve(t *testing.T, run *rl.Run) {
	file := filepath.Join(t.TempDir(), "lift.weights")
	if err := run.Weights.Save(file); err != nil {
		t.Fatal(err)
	}
	policy, err := dqn.New(dqn.Config{NStep: 5, Prioritised: true}).Policy(run.Env)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := rl.LoadWeights(file) // a file that was changed or cut is rl.ErrFile
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.Load(weights); err != nil { // another net is rl.ErrModel
		t.Fatal(err)
	}
	env, action := NewLift(7), make([]float32, 1)
	policy.Act(env.Reset(), nil, action, nil)
	if mean, err := rl.Evaluate(NewLift, 8, policy, 100); err != nil || mean < 0.7 {
		t.Error(mean, err)
	}
}

func TestSeeds(t *testing.T) {
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "lift.svg")
	var runs []*rl.Run
	for seed := range uint64(3) {
		run, err := lift.Train(ctx, rl.Plan{Steps: 8000, Seed: seed + 1, Evaluate: true, Every: 1000, Episodes: 20})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	err := rl.Plot(file, runs...)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "<svg") {
		t.Error(err)
	}
}

func TestSwing(t *testing.T) {
	run, err := swing.Train(t.Context(), rl.Plan{Steps: 5000})
	if err != nil || run.LearnerSteps < 2 {
		t.Error(run, err)
	}
}
