package demo

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
	"github.com/raysys/raysys/tasks"
)

// The shape of an iteration, which ppo's defaults were tuned for, and of a measurement.
const (
	rollouts     = 8
	rolloutSteps = 256 // at least: a rollout ends with its last episode

	measuredEpisodes = 100
	// Ten episodes of a good policy are 5,000 steps, some ten milliseconds: work enough for a task, in parts enough
	// for ten CPUs.
	measureParts = 10
)

// Each piece of work has a stream of its own: (seed, iteration, k). Those k of an iteration beyond its rollouts are
// its evaluation's; the random policy and the clients of the server take theirs beyond iteration 0's.
const (
	kEvaluate = rollouts
	kRandom   = kEvaluate + measureParts
	kClient   = kRandom + measureParts
)

// stream names the chance of one piece of work.
type stream struct {
	Seed         uint64
	Iteration, K int
}

// rolloutArgs are those of one rollout. The weights are a dependency: the task starts when they are there.
type rolloutArgs struct {
	Weights raysys.Ref[ppo.Weights]
	Stream  stream
	Steps   int
}

var rollout = tasks.Define("cartpole-rollout", func(ctx context.Context, a rolloutArgs) (ppo.Trajectory, error) {
	w, err := a.Weights.Get(ctx)
	if err != nil {
		return ppo.Trajectory{}, err
	}
	return ppo.Rollout(w, env.NewCartPole(), a.Steps, ppo.Stream(a.Stream.Seed, a.Stream.Iteration, a.Stream.K)), nil
})

// evaluateArgs are those of one part of an evaluation.
type evaluateArgs struct {
	Weights  raysys.Ref[ppo.Weights]
	Stream   stream
	Episodes int
}

// evaluate returns the returns of fresh episodes under the most probable action.
var evaluate = tasks.Define("cartpole-evaluate", func(ctx context.Context, a evaluateArgs) ([]float64, error) {
	w, err := a.Weights.Get(ctx)
	if err != nil {
		return nil, err
	}
	return ppo.Evaluate(w, env.NewCartPole(), a.Episodes, ppo.Stream(a.Stream.Seed, a.Stream.Iteration, a.Stream.K)), nil
})

// randomArgs are those of one part of the random policy's measurement.
type randomArgs struct {
	Stream   stream
	Episodes int
}

// playRandom is evaluate for the policy that knows nothing.
var playRandom = tasks.Define("cartpole-random", func(_ context.Context, a randomArgs) ([]float64, error) {
	e, rng := env.NewCartPole(), ppo.Stream(a.Stream.Seed, a.Stream.Iteration, a.Stream.K)
	spec := e.Spec()
	obs := make([]float64, spec.Obs)
	returns := make([]float64, a.Episodes)
	for i := range returns {
		e.Reset(rng, obs)
		for over := false; !over; {
			reward, done, truncated := e.Step(rng.IntN(spec.Actions), obs)
			returns[i] += reward
			over = done || truncated
		}
	}
	return returns, nil
})

// collect submits the rollouts of an iteration.
func collect(ctx context.Context, w raysys.Ref[ppo.Weights], seed uint64, iteration int) []raysys.Ref[ppo.Trajectory] {
	args := make([]rolloutArgs, rollouts)
	for k := range args {
		args[k] = rolloutArgs{w, stream{seed, iteration, k}, rolloutSteps}
	}
	return rollout.Map(ctx, args)
}

// submitEvaluation submits the parts of one measurement of w.
func submitEvaluation(ctx context.Context, w raysys.Ref[ppo.Weights], seed uint64, iteration int) []raysys.Ref[[]float64] {
	args := make([]evaluateArgs, measureParts)
	for i := range args {
		args[i] = evaluateArgs{w, stream{seed, iteration, kEvaluate + i}, measuredEpisodes / measureParts}
	}
	return evaluate.Map(ctx, args)
}

// submitRandom submits the parts of the random policy's measurement.
func submitRandom(ctx context.Context, seed uint64) []raysys.Ref[[]float64] {
	args := make([]randomArgs, measureParts)
	for i := range args {
		args[i] = randomArgs{stream{seed, 0, kRandom + i}, measuredEpisodes / measureParts}
	}
	return playRandom.Map(ctx, args)
}

// meanReturn waits for the parts of a measurement.
func meanReturn(ctx context.Context, parts []raysys.Ref[[]float64]) (float64, error) {
	all, err := raysys.GetAll(ctx, parts).Values()
	if err != nil {
		return 0, err
	}
	sum, n := 0.0, 0
	for _, part := range all {
		for _, r := range part {
			sum += r
			n++
		}
	}
	return sum / float64(n), nil
}
