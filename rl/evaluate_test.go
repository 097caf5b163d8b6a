package rl

import (
	"context"
	"math/rand/v2"
	"testing"
)

// seeded is an environment that returns 1 for the seeds below 10, else 0, in episodes of one step.
func seeded(_ context.Context, seed uint64) *world {
	reward := float32(0)
	if seed < 10 {
		reward = 1
	}
	spec := Spec{Name: "seeded", Obs: []int{1}, Actions: 1, MaxSteps: 1}
	obs := []float32{0}
	return &world{false, func() Spec { return spec }, func() []float32 { return obs }, func(int, []float32) Step {
		return Step{Obs: obs, Reward: reward, Terminated: true}
	}}
}

// still is an agent that acts, and does not learn.
type still struct{ Agent }

func (still) Policy(Spec) (Policy, error)                            { return still{}, nil }
func (still) Load(Weights) error                                     { return nil }
func (still) Act(_ []float32, _ *rand.Rand, action, extra []float32) { action[0] = 0 }

// TestGoalTwice: a goal is reached where the second episodes reach it too, and these are what the run returns.
func TestGoalTwice(t *testing.T) {
	e, w := &Experiment{make: seeded, agent: still{}}, Weights{Model: "m", Steps: 3}
	for _, tc := range []struct {
		first, second uint64
		stops         bool
		mean, final   float64
		reached       bool
	}{
		{1, 2, true, 1, 1, true},
		{1, 20, true, 1, 0, false}, // luck
		{20, 1, true, 0, 0, false}, // no second look
		{1, 2, false, 1, 1, false},
	} {
		q := question{Spec: seeded(t.Context(), 1).spec(), Seeds: [2]uint64{tc.first, tc.second}, Episodes: 3, Steps: 3, Goal: 0.5}
		if tc.stops {
			q.Stop = 3
		}
		m, err := e.measure(t.Context(), w, q)
		if err != nil || m.Mean != tc.mean || m.Final != tc.final || m.Reached != tc.reached || (m.Weights.Steps == 3) != tc.reached {
			t.Errorf("%+v: %+v %v", tc, m, err)
		}
	}
}
