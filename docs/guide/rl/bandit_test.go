package rl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
)

// bestArm plays a bandit, and returns the arm whose mean reward is the highest. Now and then it tries another.
func bestArm(env rl.Env[int], rng *rand.Rand, episodes int) int {
	arms := env.Spec().Actions
	mean, n := make([]float32, arms), make([]float32, arms)
	for range episodes {
		arm := slices.Index(mean, slices.Max(mean))
		if rng.Float64() < 0.1 {
			arm = rng.IntN(arms)
		}
		env.Reset()
		step := env.Step(arm)
		n[arm]++
		mean[arm] += (step.Reward - mean[arm]) / n[arm]
	}
	return slices.Index(mean, slices.Max(mean))
}

func Example_bandit() {
	env := envs.Bandit(1, 0.2, 0.5, 0.8)
	fmt.Println(bestArm(env, rand.New(rand.NewPCG(1, 1)), 2000))
	// Output: 2
}

func TestBanditIsAnEnvironment(t *testing.T) {
	err := rl.Check(func(seed uint64) rl.Env[int] { return envs.Bandit(seed, 0.2, 0.5, 0.8) })
	if err != nil {
		t.Fatal(err)
	}
}
