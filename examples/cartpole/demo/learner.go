package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
	"github.com/raysys/raysys/grains"
)

// ErrNotStarted is the state of a learner that is called before Start.
var ErrNotStarted = errors.New("learner not started")

// The learner may be on another node, and its errors too.
var _ = raysys.RegisterError("cartpole.not-started", ErrNotStarted)

// Learner is the grain that holds a ppo.Learner: one key is one run.
type Learner struct{ ppo *ppo.Learner }

// Experience is what an update learns from: the trajectories of an iteration, in the order of their numbers.
// References in a grain's argument are passed on, so the trajectories go from the rollouts to the learner directly.
type Experience struct{ Rollouts []raysys.Ref[ppo.Trajectory] }

// updateDeadline covers the rollouts that an update waits for, together some tenths of a second, on a machine a
// hundred times slower than one CPU of today.
const updateDeadline = 2 * time.Minute

var (
	learners = grains.Define[Learner]("cartpole-learner")
	start    = grains.Method(learners, "start", (*Learner).Start)
	update   = grains.Method(learners, "update", (*Learner).Update).With(raysys.Deadline(updateDeadline))
	weights  = grains.Method0(learners, "weights", (*Learner).Weights).With(raysys.Deadline(updateDeadline))
)

// Start begins a run anew and returns its initial weights.
func (l *Learner) Start(_ context.Context, c ppo.Config) (ppo.Weights, error) {
	p, err := ppo.NewLearner(c, env.NewCartPole().Spec())
	if err != nil {
		return ppo.Weights{}, err
	}
	l.ppo = p
	return p.Weights(), nil
}

// Update waits for the trajectories and learns from them.
func (l *Learner) Update(ctx context.Context, x Experience) (ppo.Stats, error) {
	if l.ppo == nil {
		return ppo.Stats{}, ErrNotStarted
	}
	trajs, err := raysys.GetAll(ctx, x.Rollouts).Values()
	if err != nil {
		return ppo.Stats{}, fmt.Errorf("collect rollouts: %w", err)
	}
	return l.ppo.Update(trajs)
}

// Weights returns the current weights. Called right after Update it has its turn right after it, so its reference
// can be handed to the next rollouts while the update still runs.
func (l *Learner) Weights(context.Context) (ppo.Weights, error) {
	if l.ppo == nil {
		return ppo.Weights{}, ErrNotStarted
	}
	return l.ppo.Weights(), nil
}
