package dqn_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

var (
	catch    = rl.Define("catch", rl.Setup[int]{Env: envs.Catch, Agent: dqn.New(dqn.Config{NStep: 5, Prioritised: true})})
	cartPole = rl.Define("cartpole", rl.Setup[int]{Env: envs.CartPole, Agent: dqn.New(dqn.Config{NStep: 5, Prioritised: true})})
)

func train(t *testing.T, e *rl.Experiment, plan rl.Plan) *rl.Run {
	t.Helper()
	run, err := e.Train(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, seed %d: mean return %.2f (random %.2f) after %d steps and %d of the learner, %v",
		run.Env.Name, run.Seed, run.MeanReturn, run.RandomReturn, run.Steps, run.LearnerSteps, run.Took)
	return run
}

// TestCatch: all balls are caught, or nearly all, over 100 fresh episodes.
func TestCatch(t *testing.T) {
	for seed := range long.Form[uint64](1, 5) {
		run := train(t, catch, rl.Plan{Steps: 20_000, Seed: seed + 1, Stop: rl.MeanReturn(100, 0.95)})
		if !run.Solved || run.MeanReturn < 0.95 || run.RandomReturn > -0.3 {
			t.Errorf("seed %d: solved %v, mean return %v, random %v", run.Seed, run.Solved, run.MeanReturn, run.RandomReturn)
		}
	}
}

// TestCartPole: a pole that stands for 195 steps was once the goal of this environment. At random it stands for 22.
func TestCartPole(t *testing.T) {
	long.Only(t)
	for seed := range uint64(5) {
		if run := train(t, cartPole, rl.Plan{Steps: 50_000, Seed: seed + 1, Stop: rl.MeanReturn(100, 475)}); run.MeanReturn < 195 {
			t.Errorf("seed %d: mean return %v", run.Seed, run.MeanReturn)
		}
	}
}

func TestRepeats(t *testing.T) {
	plan := rl.Plan{Steps: 1500, Seed: 3}
	a, b := train(t, catch, plan), train(t, catch, plan)
	if diff := cmp.Diff(a.Points, b.Points, cmpopts.IgnoreFields(rl.Point{}, "Seconds"), cmpopts.EquateNaNs()); diff != "" || !slices.Equal(a.Weights.Params, b.Weights.Params) {
		t.Errorf("two runs of one seed differ: %s", diff)
	}
	if plan.Seed = 4; slices.Equal(train(t, catch, plan).Weights.Params, a.Weights.Params) {
		t.Error("runs of two seeds are the same")
	}
}
