package ppo_test

import (
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
	"github.com/raysys/raysys/internal/long"
)

// The shape of an iteration of the distributed program, and its budget.
const (
	rollouts     = 8
	rolloutSteps = 256
	budget       = 100_000
)

// TestLearnsSequentially runs what the distributed program runs, in one
// goroutine. It stops like it too: once the sampled policy's mean return over an
// iteration reaches the goal, the greedy policy plays 100 fresh episodes, and
// their mean decides. Asking the training returns first makes that decision
// nearly always one of one evaluation; picking the best of many would flatter.
// The short form has a goal that one seed reaches soon, and that no policy reaches
// without having learned: at random a pole stands for 22 steps.
func TestLearnsSequentially(t *testing.T) {
	for _, seed := range long.Seeds() {
		learns(t, seed, long.Form(60, env.NewCartPole().Spec().Solved))
	}
}

func learns(t *testing.T, seed uint64, goal float64) {
	const episodes = 100
	begin := time.Now()
	l := newLearner(t, ppo.Config{Seed: seed})
	for iteration := 0; l.State().Steps < budget; iteration++ {
		s, err := l.Update(collect(l.Weights(), seed, iteration))
		if err != nil {
			t.Fatal(err)
		}
		if s.MeanReturn < goal {
			continue
		}
		rng := ppo.Stream(seed, iteration, rollouts)
		mean := stat.Mean(ppo.Evaluate(l.Weights(), env.NewCartPole(), episodes, rng), nil)
		t.Logf("seed %2d: %6d steps, %2d updates, mean return %5.1f sampled, %5.1f greedy, %.2f s",
			seed, s.TotalSteps, s.Version, s.MeanReturn, mean, time.Since(begin).Seconds())
		if mean >= goal {
			return
		}
	}
	t.Errorf("seed %d: not learned within %d steps", seed, budget)
}

func BenchmarkAct(b *testing.B) {
	p := ppo.NewPolicy(ppo.NewWeights(env.NewCartPole().Spec(), 64, 1))
	rng := ppo.Stream(1, 0, 0)
	obs := []float64{0.1, 0.2, 0.05, -0.1}
	b.ReportAllocs()
	for b.Loop() {
		p.Act(obs, rng)
	}
}

func BenchmarkGreedy(b *testing.B) {
	p := ppo.NewPolicy(ppo.NewWeights(env.NewCartPole().Spec(), 64, 1))
	obs := []float64{0.1, 0.2, 0.05, -0.1}
	b.ReportAllocs()
	for b.Loop() {
		p.Greedy(obs)
	}
}

func BenchmarkRollout(b *testing.B) {
	w := ppo.NewWeights(env.NewCartPole().Spec(), 64, 1)
	steps := 0
	b.ReportAllocs()
	for b.Loop() {
		steps += ppo.Rollout(w, env.NewCartPole(), rolloutSteps, ppo.Stream(1, 0, steps)).Steps()
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}

// BenchmarkUpdate reports, beside the time of one update, the rate in rows of one
// pass: rows times epochs over time.
func BenchmarkUpdate(b *testing.B) {
	// No target, so that every update makes all its epochs.
	start := newLearner(b, ppo.Config{TargetKL: -1})
	trajs := collect(start.Weights(), 1, 0)
	rows := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		l, err := ppo.Resume(start.State())
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		s, err := l.Update(trajs)
		if err != nil {
			b.Fatal(err)
		}
		rows += s.Steps * s.Epochs
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
