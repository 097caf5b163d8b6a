package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
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

// agent makes an update of all that an iteration plays.
func (r run) agent() rl.Agent { return ppo.New(ppo.Config{Batch: r.Rollouts * r.Steps}) }

var spec = envs.CartPole(0).Spec()

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
	Weights         raysys.Ref[rl.Weights]
	Run             run
	Iteration, Part int
}

// played is what a rollout brings back.
type played struct {
	Items    []rl.Trajectory
	Episodes []rl.Episode
	Span     span
}

var rollout = tasks.Define("hetero.rollout", func(ctx context.Context, a rolloutArgs) (p played, err error) {
	w, err := a.Weights.Get(ctx)
	if err != nil {
		return p, err
	}
	p.Span, err = measure(ctx, "rollout", a.Iteration, func() error { return p.play(a, w) })
	return p, err
})

// play plays whole episodes until they have the steps. All chance comes from seed, iteration and part.
func (p *played) play(a rolloutArgs, w rl.Weights) error {
	agent := a.Run.agent()
	x, err := agent.Experience()
	if err != nil {
		return err
	}
	x.Adder = rl.Episodes()
	policy, err := agent.Policy(spec)
	if err != nil {
		return err
	}
	loop, err := rl.NewLoop(envs.CartPole, rand.NewPCG(a.Run.Seed, uint64(a.Iteration)<<32+uint64(a.Part)).Uint64(), policy, x)
	if err != nil {
		return err
	}
	if err := loop.Load(w); err != nil {
		return err
	}
	for steps := 0; steps < a.Run.Steps; {
		e, err := loop.Episode()
		if err != nil {
			return err
		}
		steps += e.Steps
		p.Episodes = append(p.Episodes, e)
	}
	p.Items = loop.Take()
	return nil
}

// Learner is the grain that learns, on the node whose GPU it holds. Its arithmetic is that of rl/ppo, on a CPU.
type Learner struct {
	rl    rl.Learner
	stats stats
}

// stats tells how an update went.
type stats struct {
	Updates, TotalSteps int     // so far
	MeanReturn          float64 // of the episodes that it learned from
}

// experience is what an update learns from. The trajectories go from the rollouts to the learner directly.
type experience struct {
	Iteration int
	Rollouts  []raysys.Ref[played]
}

// updated is what an update says.
type updated struct {
	Stats stats
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

// Start begins the run anew and returns the first weights.
func (l *Learner) Start(ctx context.Context, r run) (w rl.Weights, err error) {
	*l = Learner{}
	if l.rl, err = r.agent().Learner(ctx, spec, r.Seed); err != nil {
		return w, err
	}
	return l.Weights(ctx)
}

var errNotStarted = errors.New("the learner was lost with its node: run again")

// Update learns from rollouts, in their order.
func (l *Learner) Update(ctx context.Context, x experience) (u updated, err error) {
	if l.rl == nil {
		return u, errNotStarted
	}
	all, err := raysys.GetAll(ctx, x.Rollouts).Values()
	if err != nil {
		return u, fmt.Errorf("rollouts of iteration %d: %w", x.Iteration, err)
	}
	var items []rl.Trajectory
	sum, episodes := 0.0, 0
	for _, p := range all {
		items, u.Spans = append(items, p.Items...), append(u.Spans, p.Span)
		for _, e := range p.Episodes {
			sum += e.Return
			episodes++
			l.stats.TotalSteps += e.Steps
		}
	}
	l.stats.MeanReturn = sum / float64(episodes)
	own, err := measure(ctx, "update", x.Iteration, func() error {
		learned, err := l.rl.Learn(ctx, rl.Batch{Steps: items})
		l.stats.Updates += learned.Steps
		return err
	})
	u.Stats, u.Spans = l.stats, append(u.Spans, own)
	return u, err
}

// Weights returns what was learned so far. Called right after Update it has its turn right after it.
func (l *Learner) Weights(context.Context) (rl.Weights, error) {
	if l.rl == nil {
		return rl.Weights{}, errNotStarted
	}
	return rl.Weights{Model: l.rl.Model(), Steps: l.stats.Updates, Params: l.rl.Weights()}, nil
}

// Stop gives the GPU back.
func (l *Learner) Stop(ctx context.Context) error { return grains.Deactivate(ctx) }

// learned is what a run leaves.
type learned struct {
	Stats   stats
	Weights rl.Weights
	Spans   []span
}

// learn does all iterations of a run.
func learn(ctx context.Context, r run) (l learned, err error) {
	g := learners.Get(fmt.Sprintf("%s-%d", r.Placement, r.Seed))
	current := start.Call(ctx, g, r)
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
