package dqn_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

// TestEpsilon: action 0 is the best one of the first state. A share of epsilon is random, half of that is action 1.
func TestEpsilon(t *testing.T) {
	for _, c := range []struct {
		name   string
		config dqn.Config
		steps  int
		want   float64 // epsilon
	}{
		{"nothing learned", dqn.Config{}, 0, 1},
		{"default", dqn.Config{}, 1, 0.05},
		{"constant", dqn.Config{Epsilon: 0.4}, 7, 0.4},
		{"falling", dqn.Config{Epsilon: 0.2, FirstEpsilon: 0.8, EpsilonSteps: 100}, 25, 0.65},
		{"half way", dqn.Config{Epsilon: 0.2, FirstEpsilon: 0.8}, 500, 0.5},
		{"fallen", dqn.Config{Epsilon: 0.2, FirstEpsilon: 0.8, EpsilonSteps: 100}, 1000, 0.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Hidden = []int{}
			agent := dqn.New(c.config)
			p, err := agent.Policy(states)
			if err == nil {
				err = p.Load(rl.Weights{Model: "dqn 2-2 relu", Steps: c.steps, Params: values})
			}
			if err != nil {
				t.Fatal(err)
			}
			const draws = 20_000
			rng, action, other := rand.New(rand.NewPCG(1, 0)), make([]float32, 1), 0.0
			for range draws {
				p.Act([]float32{1, 0}, rng, action, nil)
				other += float64(action[0])
			}
			if got := 2 * other / draws; math.Abs(got-c.want) > 0.03 { // four standard errors
				t.Errorf("epsilon is %v, want %v", got, c.want)
			}
			for range 1000 {
				if p.Act([]float32{1, 0}, nil, action, nil); action[0] != 0 {
					t.Fatal("without a rng it does not take the best action")
				}
			}
		})
	}
}

func TestActAllocates(t *testing.T) {
	p, env := trained(t, dqn.Config{Epsilon: 0.5}), envs.Catch(1)
	obs, action := env.Reset(), make([]float32, 1)
	for _, rng := range []*rand.Rand{nil, rand.New(rand.NewPCG(1, 0))} {
		if n := testing.AllocsPerRun(200, func() { p.Act(obs, rng, action, nil) }); n != 0 {
			t.Errorf("with rng %v: %v allocations, want none", rng != nil, n)
		}
	}
}

func TestWeightsOfAnother(t *testing.T) {
	p := trained(t, dqn.Config{})
	for _, w := range []rl.Weights{
		{Model: "dqn 50-64-64-2 relu", Params: make([]float32, 7554)},
		{Model: "other 50-64-64-3 relu", Params: make([]float32, 7619)},
		{Model: "dqn 50-64-64-3 relu", Params: make([]float32, 7)},
	} {
		if err := p.Load(w); !errors.Is(err, rl.ErrModel) {
			t.Errorf("%d weights of %s: %v", len(w.Params), w.Model, err)
		}
	}
}
