package ppo

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/raysys/raysys/examples/cartpole/env"
)

// Rollout plays whole episodes by w until it has at least steps of them, and
// returns them with the values the learner needs. All chance comes from rng, so
// equal arguments give equal trajectories.
//
// Whole episodes, because a rollout is stateless: each starts from a reset. Cut
// at a fixed number of steps, below the 500 an episode may have, it would never
// see the later part of any, and a slow drift to the edge of the track would
// stay invisible. Carrying the environment from one iteration to the next
// would also do, but makes of every rollout a link in a chain that cannot be
// run again without those before it. The price is that a rollout is up to one
// episode longer than asked: steps + Spec().MaxSteps - 1 at most.
func Rollout(w Weights, e env.Env, steps int, rng *rand.Rand) Trajectory {
	spec := e.Spec()
	p := NewPolicy(w)
	room := max(steps, 1) + spec.MaxSteps - 1
	t := Trajectory{
		Version:  w.Version,
		ObsSize:  spec.Obs,
		Obs:      make([]float64, 0, room*spec.Obs),
		Actions:  make([]int32, 0, room),
		LogProbs: make([]float64, 0, room),
		Rewards:  make([]float64, 0, room),
	}
	obs := make([]float64, spec.Obs)
	for first := true; first || t.Steps() < steps; first = false {
		e.Reset(rng, obs)
		start, total, bootstrap := t.Steps(), 0.0, 0.0
		for over := false; !over; {
			t.Obs = append(t.Obs, obs...)
			action, logProb := p.Act(obs, rng)
			reward, done, truncated := e.Step(action, obs)
			t.Actions = append(t.Actions, int32(action))
			t.LogProbs = append(t.LogProbs, logProb)
			t.Rewards = append(t.Rewards, reward)
			total += reward
			if truncated && !done {
				bootstrap = p.Value(obs)
			}
			over = done || truncated
		}
		t.Lengths = append(t.Lengths, int32(t.Steps()-start))
		t.Returns = append(t.Returns, total)
		t.Bootstraps = append(t.Bootstraps, bootstrap)
	}
	t.Values = values(w, t.Obs)
	return t
}

// valueRows is how many observations the value net takes at once: few enough
// for the activations to stay in the first-level cache.
const valueRows = 32

// values evaluates the rows of obs. In batches this costs less than half of
// what it does one by one, and nothing needs a value before the episode is over.
func values(w Weights, obs []float64) []float64 {
	n := w.valueNet()
	p := n.newPass(valueRows)
	out := make([]float64, 0, len(obs)/w.Obs)
	for len(obs) > 0 {
		rows := min(valueRows, len(obs)/w.Obs)
		x := blas64.General{Rows: rows, Cols: w.Obs, Stride: w.Obs, Data: obs[:rows*w.Obs]}
		out = append(out, n.forward(w.Value, x, p).Data...)
		obs = obs[rows*w.Obs:]
	}
	return out
}

// Evaluate plays episodes by the most probable action and returns the return of
// each.
func Evaluate(w Weights, e env.Env, episodes int, rng *rand.Rand) []float64 {
	p := NewPolicy(w)
	obs := make([]float64, e.Spec().Obs)
	returns := make([]float64, episodes)
	for i := range returns {
		e.Reset(rng, obs)
		for over := false; !over; {
			reward, done, truncated := e.Step(p.Greedy(obs), obs)
			returns[i] += reward
			over = done || truncated
		}
	}
	return returns
}
