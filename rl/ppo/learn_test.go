package ppo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
)

var (
	cartPole = rl.Define("ppo-cartpole", rl.Setup[int]{Env: envs.CartPole, Agent: ppo.New(ppo.Config{})})
	// The settings are those that doc.go names.
	pendulum = rl.Define("ppo-pendulum", rl.Setup[[]float32]{Env: envs.Pendulum, Agent: ppo.New(ppo.Config{
		Gamma: 0.9, RewardScale: 0.1, Entropy: -1, LearningRate: 0.001, Epochs: 10, Minibatch: 64,
	})})
)

// learns trains with each seed, and wants the goal reached within the steps of the plan, and not by a lucky evaluation alone.
func learns(t *testing.T, e *rl.Experiment, seeds uint64, plan rl.Plan, atEnd float64) {
	for plan.Seed = 1; plan.Seed <= seeds; plan.Seed++ {
		run, err := e.Train(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %6d steps, %2d updates, mean return %6.1f, random %6.1f, %.2f s", run.Seed, run.Steps, run.LearnerSteps, run.MeanReturn, run.RandomReturn, run.Took.Seconds())
		if !run.Solved || !(run.MeanReturn >= atEnd) {
			t.Errorf("seed %d: solved %v, mean return %v: want %v and more within %d steps", run.Seed, run.Solved, run.MeanReturn, atEnd, plan.Steps)
		}
	}
}

// TestCartPole: the short form has a goal that one seed reaches soon, and that no policy reaches without having learned: at random a pole stands for 22 steps.
func TestCartPole(t *testing.T) {
	goal := long.Form(60, envs.CartPole(1).Spec().Threshold)
	// The last evaluation is another one than that by which the goal was reached, and may be a little below.
	learns(t, cartPole, long.Form[uint64](1, 5), rl.Plan{Steps: 40_000, Every: 512, Stop: rl.MeanReturn(100, goal)}, 0.95*goal)
}

// TestPendulum: at random the mean return is -1227.
func TestPendulum(t *testing.T) {
	goal := long.Form(-700., -250)
	learns(t, pendulum, long.Form[uint64](1, 3), rl.Plan{Steps: 60_000, Every: 2048, Stop: rl.MeanReturn(100, goal)}, 1.2*goal)
}

// TestRepeats: a run repeats bit for bit by its seed, and another seed is another run.
func TestRepeats(t *testing.T) {
	same := cmp.Options{cmpopts.IgnoreFields(rl.Run{}, "Took"), cmpopts.IgnoreFields(rl.Point{}, "Seconds"), cmpopts.EquateNaNs()}
	for name, e := range map[string]*rl.Experiment{"discrete": cartPole, "vectors": pendulum} {
		train := func(seed uint64) *rl.Run {
			run, err := e.Train(t.Context(), rl.Plan{Steps: 5000, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		first := train(3)
		if diff := cmp.Diff(first, train(3), same); diff != "" || first.LearnerSteps != 2 {
			t.Errorf("%s: %d updates, and then\n%s", name, first.LearnerSteps, diff)
		}
		if cmp.Equal(first.Weights, train(4).Weights) {
			t.Errorf("%s: two seeds have the same weights", name)
		}
	}
}
