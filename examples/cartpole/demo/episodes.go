package demo

import (
	"context"
	"math/rand/v2"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
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

// What is learned, and by what. An update takes all that an iteration plays.
var (
	agent = ppo.New(ppo.Config{Batch: rollouts * rolloutSteps})
	spec  = envs.CartPole(0).Spec()
)

// policyOf returns what acts by the weights.
func policyOf(w rl.Weights) (rl.Policy, error) {
	p, err := agent.Policy(spec)
	if err != nil {
		return nil, err
	}
	return p, p.Load(w)
}

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

// seed depends on nothing else, so a rollout that runs again on another node draws the same numbers.
func (s stream) seed() uint64 {
	return rand.NewPCG(s.Seed, uint64(s.Iteration)<<32+uint64(s.K)).Uint64()
}

// rolloutArgs are those of one rollout. The weights are a dependency: the task starts when they are there.
type rolloutArgs struct {
	Weights raysys.Ref[rl.Weights]
	Stream  stream
	Steps   int
}

// Played is what one rollout brings back.
type Played struct {
	Items    []rl.Trajectory
	Episodes []rl.Episode
}

// rollout plays whole episodes until they have the steps. Whole ones, because it is stateless, and each begins with a
// reset: cut at a fixed number of steps, below the 500 that an episode may have, it would never see the later part of
// any, and a slow drift to the edge of the track would stay invisible. Carrying the environment from one iteration to
// the next would make of every rollout a link in a chain that cannot be run again without those before it.
var rollout = tasks.Define("cartpole-rollout", func(ctx context.Context, a rolloutArgs) (p Played, err error) {
	w, err := a.Weights.Get(ctx)
	if err != nil {
		return p, err
	}
	x, err := agent.Experience()
	if err != nil {
		return p, err
	}
	x.Adder = rl.Episodes()
	policy, err := policyOf(w)
	if err != nil {
		return p, err
	}
	loop, err := rl.NewLoop(envs.CartPole, a.Stream.seed(), policy, x)
	if err != nil {
		return p, err
	}
	for steps := 0; steps < a.Steps; {
		e, err := loop.Episode()
		if err != nil {
			return p, err
		}
		steps += e.Steps
		p.Episodes = append(p.Episodes, e)
	}
	p.Items = loop.Take()
	return p, nil
})

// evaluateArgs are those of one part of an evaluation.
type evaluateArgs struct {
	Weights  raysys.Ref[rl.Weights]
	Stream   stream
	Episodes int
}

// evaluate returns the mean return of fresh episodes under the most probable action.
var evaluate = tasks.Define("cartpole-evaluate", func(ctx context.Context, a evaluateArgs) (float64, error) {
	w, err := a.Weights.Get(ctx)
	if err != nil {
		return 0, err
	}
	policy, err := policyOf(w)
	if err != nil {
		return 0, err
	}
	return rl.Evaluate(envs.CartPole, a.Stream.seed(), policy, a.Episodes)
})

// randomArgs are those of one part of the random policy's measurement.
type randomArgs struct {
	Stream   stream
	Episodes int
}

// playRandom is evaluate for the policy that knows nothing.
var playRandom = tasks.Define("cartpole-random", func(_ context.Context, a randomArgs) (float64, error) {
	return rl.Evaluate(envs.CartPole, a.Stream.seed(), nil, a.Episodes)
})

// collect submits the rollouts of an iteration.
func collect(ctx context.Context, w raysys.Ref[rl.Weights], seed uint64, iteration int) []raysys.Ref[Played] {
	args := make([]rolloutArgs, rollouts)
	for k := range args {
		args[k] = rolloutArgs{w, stream{seed, iteration, k}, rolloutSteps}
	}
	return rollout.Map(ctx, args)
}

// submitEvaluation submits the parts of one measurement of w.
func submitEvaluation(ctx context.Context, w raysys.Ref[rl.Weights], seed uint64, iteration int) []raysys.Ref[float64] {
	args := make([]evaluateArgs, measureParts)
	for i := range args {
		args[i] = evaluateArgs{w, stream{seed, iteration, kEvaluate + i}, measuredEpisodes / measureParts}
	}
	return evaluate.Map(ctx, args)
}

// submitRandom submits the parts of the random policy's measurement.
func submitRandom(ctx context.Context, seed uint64) []raysys.Ref[float64] {
	args := make([]randomArgs, measureParts)
	for i := range args {
		args[i] = randomArgs{stream{seed, 0, kRandom + i}, measuredEpisodes / measureParts}
	}
	return playRandom.Map(ctx, args)
}

// meanReturn waits for the parts of a measurement, which have as many episodes each.
func meanReturn(ctx context.Context, parts []raysys.Ref[float64]) (mean float64, err error) {
	all, err := raysys.GetAll(ctx, parts).Values()
	for _, part := range all {
		mean += part / float64(len(parts))
	}
	return mean, err
}
