package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/rl"
)

// ErrNotLearned is the state of a run that spent its steps below the goal.
var ErrNotLearned = errors.New("not learned")

// Learned is how a run of Learn ended.
type Learned struct {
	// Weights refers to the weights that reached the goal.
	Weights raysys.Ref[rl.Weights]

	// MeanReturn is the mean over 100 fresh episodes by the most probable action, RandomReturn that of a random
	// policy.
	MeanReturn, RandomReturn float64

	// Steps are the environment steps learned from, Took the time from the first submission to the evaluation.
	Steps int
	Took  time.Duration
}

// maxRuns bounds how often a run is begun. One takes seconds, and a node that dies in each of five says something else.
const maxRuns = 5

// Learn trains until the goal is reached, or returns ErrNotLearned when o.Steps were not enough. observe, where it is
// not nil, is told of every update. ctx must come from a runtime.
//
// The learner is kept in memory: when its node dies the run begins again on another, and since it repeats by its seed
// nothing comes out differently.
func Learn(ctx context.Context, o Options, observe func(Stats)) (Learned, error) {
	if err := o.Validate(); err != nil {
		return Learned{}, err
	}
	if observe == nil {
		observe = func(Stats) {}
	}
	began := time.Now()
	for n := 1; ; n++ {
		l, err := learn(ctx, o, observe)
		if err == nil || n == maxRuns || ctx.Err() != nil || !lostWithNode(err) {
			l.Took = time.Since(began)
			return l, err
		}
	}
}

// lostWithNode: a node died, with the learner or with something that a rollout or an update needed.
func lostWithNode(err error) bool {
	return slices.ContainsFunc([]error{
		ErrNotStarted, raysys.ErrNodeDead, raysys.ErrOutcomeUnknown, raysys.ErrNotDelivered, raysys.ErrUnreachable, raysys.ErrObjectLost,
	}, func(state error) bool { return errors.Is(err, state) })
}

// learn is one run.
//
// The sampled policy's mean over an iteration decides when the evaluation is due, and the evaluation decides: asked
// after every update, it would sooner or later pass by luck.
func learn(ctx context.Context, o Options, observe func(Stats)) (Learned, error) {
	goal := o.goal()
	random := submitRandom(ctx, o.Seed) // answered while the learning goes on
	learner := learners.Get(fmt.Sprintf("seed-%d", o.Seed))
	current := start.Call(ctx, learner, o.Seed)
	var stats Stats
	for iteration := 0; stats.TotalSteps < o.Steps; iteration++ {
		updated := update.Call(ctx, learner, Experience{collect(ctx, current, o.Seed, iteration)})
		current = weights.Call(ctx, learner) // its turn follows the update's
		var err error
		if stats, err = updated.Get(ctx); err != nil {
			return Learned{}, fmt.Errorf("learn in iteration %d: %w", iteration, err)
		}
		observe(stats)
		// The last iteration may end beyond the budget, and is not within it then.
		if stats.MeanReturn < goal || stats.TotalSteps > o.Steps {
			continue
		}
		mean, err := meanReturn(ctx, submitEvaluation(ctx, current, o.Seed, iteration))
		if err != nil {
			return Learned{}, fmt.Errorf("evaluate iteration %d: %w", iteration, err)
		}
		if mean < goal {
			continue
		}
		chance, err := meanReturn(ctx, random)
		if err != nil {
			return Learned{}, fmt.Errorf("measure the random policy: %w", err)
		}
		return Learned{Weights: current, MeanReturn: mean, RandomReturn: chance, Steps: stats.TotalSteps}, nil
	}
	return Learned{}, fmt.Errorf("%w: the mean return was %.1f after %d steps, and %g was not reached within %d: raise steps or try another seed",
		ErrNotLearned, stats.MeanReturn, stats.TotalSteps, goal, o.Steps)
}
