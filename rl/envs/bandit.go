package envs

import (
	"fmt"
	"slices"

	"github.com/raysys/raysys/rl"
)

type bandit struct {
	episodes
	arms []float64
	obs  [1]float32
}

// Bandit has episodes of one step: arm i has reward 1 with probability arms[i], else 0. The observation is 1. Bandit panics with an *rl.EnvError where there
// are no arms, or one is no probability.
func Bandit(seed uint64, arms ...float64) rl.Env[int] {
	b := &bandit{arms: slices.Clone(arms), obs: [1]float32{1}}
	spec := rl.Spec{Name: "Bandit", Obs: []int{1}, Actions: len(arms), MaxSteps: 1}
	for i, p := range arms {
		if !(0 <= p && p <= 1) {
			panic(&rl.EnvError{Name: spec.Name, Seed: seed, What: fmt.Sprintf("arm %d has probability %v", i, p)})
		}
		spec.Random += p / float64(len(arms))
	}
	if b.episodes = newEpisodes(seed, spec); len(arms) == 0 {
		b.refuse("there are no arms")
	}
	return b
}

func (b *bandit) Reset() []float32 {
	b.begin()
	return b.obs[:]
}

func (b *bandit) Step(action int) rl.Step {
	take(&b.episodes, action)
	reward := float32(0)
	if b.rng.Float64() < b.arms[action] {
		reward = 1
	}
	return b.end(b.obs[:], reward, true)
}
