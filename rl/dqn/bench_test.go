package dqn_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

// BenchmarkLearn is a learner step of a batch of 64.
func BenchmarkLearn(b *testing.B) {
	for _, env := range []func(uint64) rl.Env[int]{envs.Catch, envs.CartPole} {
		spec := env(1).Spec()
		b.Run(spec.Name, func(b *testing.B) {
			l, err := dqn.New(dqn.Config{Prioritised: true}).Learner(context.Background(), spec, 1)
			if err != nil {
				b.Fatal(err)
			}
			batch := batchOf(spec, rand.New(rand.NewPCG(1, 0)), 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Learn(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAct(b *testing.B) {
	policy, env := trained(b, dqn.Config{}), envs.Catch(1)
	obs, action, rng := env.Reset(), make([]float32, 1), rand.New(rand.NewPCG(1, 0))
	b.ReportAllocs()
	for b.Loop() {
		policy.Act(obs, rng, action, nil)
	}
}

// BenchmarkTrain is a run of 2,000 steps in Catch, in one goroutine.
func BenchmarkTrain(b *testing.B) {
	b.ReportAllocs()
	steps := 0
	for b.Loop() {
		run, err := catch.Train(context.Background(), rl.Plan{Steps: 2000})
		if err != nil {
			b.Fatal(err)
		}
		steps += run.Steps
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}
