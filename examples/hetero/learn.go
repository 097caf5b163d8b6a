package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/cartpole/env"
	"github.com/raysys/raysys/examples/cartpole/ppo"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// run is what is learned, and how its parts are placed.
type run struct {
	Seed                 uint64
	Iterations, Rollouts int
	Steps                int // of each rollout at least
	Placement            string
}

// placements say where rollouts go. The learner holds a GPU in both.
var placements = map[string][]raysys.Option{
	"split":     {raysys.Label("kind", "cpu"), raysys.Placement(raysys.Spread)}, // on nodes that have none
	"symmetric": {raysys.Label("kind", "gpu"), raysys.Placement(raysys.Spread)}, // all nodes are alike, as those of an MPI program
}

// span is one piece of work, as the node saw it that did it.
type span struct {
	Node      raysys.NodeID
	Work      string // "rollout" or "update"
	Iteration int
	From, To  time.Time
}

func (s span) busy() time.Duration { return s.To.Sub(s.From) }

// measure runs f as a span of this node.
func measure(ctx context.Context, work string, iteration int, f func() error) (span, error) {
	s := span{Node: system.NodeOf(ctx).Name(), Work: work, Iteration: iteration, From: time.Now()}
	err := f()
	s.To = time.Now()
	return s, err
}

// rolloutArgs are those of one rollout, which begins when the weights are there.
type rolloutArgs struct {
	Weights         raysys.Ref[ppo.Weights]
	Run             run
	Iteration, Part int
}

// played is what a rollout brings back.
type played struct {
	Trajectory ppo.Trajectory
	Span       span
}

var rollout = tasks.Define("hetero.rollout", func(ctx context.Context, a rolloutArgs) (p played, err error) {
	w, err := a.Weights.Get(ctx)
	if err != nil {
		return p, err
	}
	p.Span, err = measure(ctx, "rollout", a.Iteration, func() error {
		p.Trajectory = ppo.Rollout(w, env.NewCartPole(), a.Run.Steps, ppo.Stream(a.Run.Seed, a.Iteration, a.Part))
		return nil
	})
	return p, err
})

// Learner is the grain that learns, on the node whose GPU it holds. Its arithmetic is that of package ppo, on a CPU.
type Learner struct{ ppo *ppo.Learner }

// experience is what an update learns from. The trajectories go from the rollouts to the learner directly.
type experience struct {
	Iteration int
	Rollouts  []raysys.Ref[played]
}

// updated is what an update says.
type updated struct {
	Stats ppo.Stats
	Spans []span // the update's, and those of what it learned from
}

// updateDeadline covers the rollouts that an update waits for, on a machine a hundred times slower than one of today.
const updateDeadline = 2 * time.Minute

var (
	learners = grains.Define[Learner]("hetero.learner", grains.Holds(raysys.GPU(1)))
	start    = grains.Method(learners, "start", (*Learner).Start)
	update   = grains.Method(learners, "update", (*Learner).Update).With(raysys.Deadline(updateDeadline))
	weights  = grains.Method0(learners, "weights", (*Learner).Weights).With(raysys.Deadline(updateDeadline))
	stop     = grains.Action0(learners, "stop", (*Learner).Stop)
)

// Start begins anew and returns the first weights.
func (l *Learner) Start(_ context.Context, seed uint64) (w ppo.Weights, err error) {
	if l.ppo, err = ppo.NewLearner(ppo.Config{Seed: seed}, env.NewCartPole().Spec()); err == nil {
		w = l.ppo.Weights()
	}
	return w, err
}

var errNotStarted = errors.New("the learner was lost with its node: run again")

// Update learns from rollouts, in their order.
func (l *Learner) Update(ctx context.Context, x experience) (u updated, err error) {
	if l.ppo == nil {
		return u, errNotStarted
	}
	all, err := raysys.GetAll(ctx, x.Rollouts).Values()
	if err != nil {
		return u, fmt.Errorf("rollouts of iteration %d: %w", x.Iteration, err)
	}
	var list []ppo.Trajectory
	for _, p := range all {
		list, u.Spans = append(list, p.Trajectory), append(u.Spans, p.Span)
	}
	own, err := measure(ctx, "update", x.Iteration, func() (err error) {
		u.Stats, err = l.ppo.Update(list)
		return err
	})
	u.Spans = append(u.Spans, own)
	return u, err
}

// Weights returns what was learned so far. Called right after Update it has its turn right after it.
func (l *Learner) Weights(context.Context) (ppo.Weights, error) {
	if l.ppo == nil {
		return ppo.Weights{}, errNotStarted
	}
	return l.ppo.Weights(), nil
}

// Stop gives the GPU back.
func (l *Learner) Stop(ctx context.Context) error { return grains.Deactivate(ctx) }

// learned is what a run leaves.
type learned struct {
	Stats   ppo.Stats
	Weights ppo.Weights
	Spans   []span
}

// learn does all iterations of a run.
func learn(ctx context.Context, r run) (l learned, err error) {
	g := learners.Get(fmt.Sprintf("%s-%d", r.Placement, r.Seed))
	current := start.Call(ctx, g, r.Seed)
	for i := range r.Iterations {
		args := make([]rolloutArgs, r.Rollouts)
		for k := range args {
			args[k] = rolloutArgs{current, r, i, k}
		}
		next := update.Call(ctx, g, experience{i, rollout.With(placements[r.Placement]...).Map(ctx, args)})
		current = weights.Call(ctx, g) // its turn follows the update's
		u, err := next.Get(ctx)
		if err != nil {
			return l, fmt.Errorf("%s, iteration %d: %w", r.Placement, i, err)
		}
		l.Stats, l.Spans = u.Stats, append(l.Spans, u.Spans...)
	}
	if l.Weights, err = current.Get(ctx); err != nil {
		return l, err
	}
	_, err = stop.Call(ctx, g).Get(ctx)
	return l, err
}
