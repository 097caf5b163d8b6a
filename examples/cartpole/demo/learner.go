package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
)

// ErrNotStarted is the state of a learner that is called before Start.
var ErrNotStarted = errors.New("learner not started")

// The learner may be on another node, and its errors too.
var _ = raysys.RegisterError("cartpole.not-started", ErrNotStarted)

// Learner is the grain that holds the learner of the algorithm: one key is one run.
type Learner struct {
	rl    rl.Learner
	stats Stats // of the last update
}

// Stats tells how an update went.
type Stats struct {
	Updates, TotalSteps int // so far, with this one
	// Steps and Episodes are what it learned from, MeanReturn is that of the episodes, by drawn actions.
	Steps, Episodes int
	MeanReturn      float64
}

// Experience is what an update learns from: what was played in an iteration, in the order of its numbers. References in a
// grain's argument are passed on, so the trajectories go from the rollouts to the learner directly.
type Experience struct{ Rollouts []raysys.Ref[Played] }

// updateDeadline covers the rollouts that an update waits for, together some tenths of a second, on a machine a
// hundred times slower than one CPU of today.
const updateDeadline = 2 * time.Minute

var (
	learners = grains.Define[Learner]("cartpole-learner")
	start    = grains.Method(learners, "start", (*Learner).Start)
	update   = grains.Method(learners, "update", (*Learner).Update).With(raysys.Deadline(updateDeadline))
	weights  = grains.Method0(learners, "weights", (*Learner).Weights).With(raysys.Deadline(updateDeadline))
)

// Start begins a run of the seed anew and returns its initial weights.
func (l *Learner) Start(ctx context.Context, seed uint64) (rl.Weights, error) {
	learner, err := agent.Learner(ctx, spec, seed)
	if err != nil {
		return rl.Weights{}, err
	}
	*l = Learner{rl: learner}
	return l.Weights(ctx)
}

// Update waits for what was played and learns from it.
func (l *Learner) Update(ctx context.Context, x Experience) (Stats, error) {
	if l.rl == nil {
		return Stats{}, ErrNotStarted
	}
	all, err := raysys.GetAll(ctx, x.Rollouts).Values()
	if err != nil {
		return Stats{}, fmt.Errorf("collect rollouts: %w", err)
	}
	s := Stats{TotalSteps: l.stats.TotalSteps}
	var items []rl.Trajectory
	for _, p := range all {
		items = append(items, p.Items...)
		for _, e := range p.Episodes {
			s.Steps += e.Steps
			s.Episodes++
			s.MeanReturn += e.Return
		}
	}
	learned, err := l.rl.Learn(ctx, rl.Batch{Steps: items})
	if err != nil {
		return Stats{}, err
	}
	s.Updates, s.TotalSteps = l.stats.Updates+learned.Steps, s.TotalSteps+s.Steps
	s.MeanReturn /= float64(s.Episodes)
	l.stats = s
	return s, nil
}

// Weights returns the current weights. Called right after Update it has its turn right after it, so its reference
// can be handed to the next rollouts while the update still runs.
func (l *Learner) Weights(context.Context) (rl.Weights, error) {
	if l.rl == nil {
		return rl.Weights{}, ErrNotStarted
	}
	return rl.Weights{Model: l.rl.Model(), Steps: l.stats.Updates, Params: l.rl.Weights()}, nil
}
