package ppo_test

import (
	"math"
	"testing"

	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
)

// decided returns weights whose policy has the given output biases, whatever it
// sees.
func decided(biases ...float64) ppo.Weights {
	w := ppo.NewWeights(env.Spec{Obs: 2, Actions: len(biases)}, 4, 1)
	clear(w.Policy)
	copy(w.Policy[len(w.Policy)-len(biases):], biases)
	return w
}

func TestPolicySamplesByProbability(t *testing.T) {
	want := []float64{0.2, 0.5, 0.3}
	p := ppo.NewPolicy(decided(math.Log(0.2), math.Log(0.5), math.Log(0.3)))
	rng := ppo.Stream(1, 0, 0)
	obs := []float64{0.3, -0.1}
	const n = 100_000
	var counts [3]float64
	for range n {
		a, logProb := p.Act(obs, rng)
		if d := math.Abs(math.Exp(logProb) - want[a]); d > 1e-12 {
			t.Fatalf("action %d came with probability %v, want %v", a, math.Exp(logProb), want[a])
		}
		counts[a]++
	}
	for a, c := range counts {
		// Four standard deviations of a binomial; the seed is fixed anyway.
		if sd := math.Sqrt(want[a] * (1 - want[a]) / n); math.Abs(c/n-want[a]) > 4*sd {
			t.Errorf("action %d taken %v of the time, want %v", a, c/n, want[a])
		}
	}
	if got := p.Greedy(obs); got != 1 {
		t.Errorf("greedy action %d, want 1", got)
	}
}

func TestPolicyIsStableForLargeLogits(t *testing.T) {
	p := ppo.NewPolicy(decided(1000, -1000))
	lp := p.LogProbs([]float64{0, 0})
	if lp[0] != 0 || lp[1] != -2000 {
		t.Errorf("log-probabilities %v, want 0 and -2000", lp)
	}
}

func TestPolicyStartsUndecided(t *testing.T) {
	p := ppo.NewPolicy(ppo.NewWeights(env.NewCartPole().Spec(), 64, 1))
	for _, lp := range p.LogProbs([]float64{2, -3, 0.2, 3}) {
		if math.Abs(math.Exp(lp)-0.5) > 0.02 {
			t.Errorf("probability %v, want about a half", math.Exp(lp))
		}
	}
}

func TestPolicyDoesNotAllocate(t *testing.T) {
	p := ppo.NewPolicy(ppo.NewWeights(env.NewCartPole().Spec(), 64, 1))
	rng := ppo.Stream(1, 0, 0)
	obs := []float64{0.1, 0.2, 0.05, -0.1}
	if n := testing.AllocsPerRun(100, func() { p.Act(obs, rng); p.Greedy(obs); p.Value(obs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
