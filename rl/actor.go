package rl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
)

// actorGrain plays for a run: an environment and a policy, which live as long as the activation.
type actorGrain struct {
	loop    *Loop
	end     context.CancelFunc // of the environment
	table   *replay.Client[Trajectory]
	look    func() raysys.Ref[Weights] // for new weights: a look ends with the activation, as turns may be shorter than it
	latest  raysys.Ref[Weights]
	late    lateness
	looking bool // latest is on its way
}

// stint is a turn of an actor: so many steps, or as many as fit in For. Attempt counts its turns, so that an actor that comes back after its
// node's death does not play the same episodes again.
type stint struct {
	Run            string
	Seed           uint64
	Actor, Attempt uint64
	Steps          int
	For, Wait      time.Duration // Wait: for the table to take items
}

// played is what came of a stint.
type played struct {
	Steps    int
	Episodes []Episode
	Acted    int
}

const (
	pullEvery  = 32 // steps between two looks for new weights
	insertMost = 32 // items that wait for each other
)

func (a *actorGrain) play(ctx context.Context, e *Experiment, s stint) (p played, err error) {
	if a.loop == nil {
		if err := a.wake(ctx, e, s); err != nil {
			return p, err
		}
	}
	// The driver cancels when the run is over: its call to leave may have come before this turn.
	defer func() {
		if ctx.Err() != nil {
			a.stop()
		}
	}()
	defer func() { p.Acted = a.loop.acted }()
	if full, err := a.insert(ctx, e, s.Wait); err != nil || full { // what the last turn had to leave
		return p, err
	}
	for until := time.Now().Add(s.For); p.Steps < s.Steps; {
		if p.Steps%pullEvery == 0 {
			if a.loop.number == 0 {
				a.late.sayOnce(ctx, a.loop)
			}
			if err := a.pull(ctx); err != nil {
				return p, err
			}
			if ctx.Err() != nil {
				return p, context.Cause(ctx)
			}
		}
		ended, err := a.loop.Step()
		if err != nil {
			return p, err
		}
		p.Steps++
		if ended != nil {
			p.Episodes = append(p.Episodes, *ended)
		}
		if len(a.loop.items) >= insertMost {
			if full, err := a.insert(ctx, e, s.Wait); err != nil || full {
				return p, err
			}
		}
		if p.Steps%pullEvery == 0 && time.Now().After(until) {
			break
		}
	}
	if e.x.Fresh > 0 {
		a.loop.items = a.loop.adding.cut(a.loop.items)
	}
	_, err = a.insert(ctx, e, s.Wait)
	return p, err
}

// wake makes the environment and the policy of an activation, and waits for the first weights.
func (a *actorGrain) wake(ctx context.Context, e *Experiment, s stint) error {
	w, err := raysys.Lookup[Weights](ctx, weightsName(e, s.Run)).Get(ctx)
	if err != nil {
		return err
	}
	// The environment and looks for weights outlive this turn, and end with the activation.
	life, end := context.WithCancel(system.NodeOf(ctx).Context(context.Background()))
	loop, err := newLoop(life, e.make, seedOf(s.Seed, s.Actor+s.Attempt<<32), nil, &e.x)
	if err == nil {
		loop.huge = e.warnHuge(life)
		loop.policy, err = e.agent.Policy(loop.spec)
	}
	if err == nil {
		err = loop.Load(w)
	}
	if err != nil {
		end()
		return err
	}
	a.loop, a.table, a.end, a.late = loop, e.replay.Get(s.Run), end, newLateness("the first episode of an actor")
	a.look = func() raysys.Ref[Weights] { return raysys.Lookup[Weights](life, weightsName(e, s.Run)) }
	return nil
}

// OnDeactivate ends the environment.
func (a *actorGrain) OnDeactivate(context.Context) error {
	a.stop()
	return nil
}

func (a *actorGrain) stop() {
	if a.loop != nil {
		a.end()
		*a = actorGrain{}
	}
}

// pull looks for new weights, and never waits for them: what an earlier call asked for is taken once it is there. While the learner is
// away the policy acts by those that it has.
func (a *actorGrain) pull(ctx context.Context) error {
	if a.looking && raysys.PhaseOf(a.latest) == raysys.PhasePending {
		return nil
	}
	if a.looking {
		a.looking = false
		var w Weights
		err := raysys.View(ctx, a.latest, func(v Weights) error {
			if v.Steps != a.loop.acted {
				w = Weights{v.Model, v.Steps, slices.Clone(v.Params)}
			}
			return nil
		})
		if err == nil && w.Model != "" {
			err = a.loop.Load(w)
		}
		if err != nil && !lost(err) {
			return err
		}
	}
	a.latest, a.looking = a.look(), true
	return nil
}

// insert puts the items of the loop into the table, and waits while it is shut. What is not in after that time stays for the next turn.
func (a *actorGrain) insert(ctx context.Context, e *Experiment, wait time.Duration) (full bool, err error) {
	items := a.loop.Take()
	if len(items) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = a.table.Insert(ctx, e.x.Table.Name, items, nil)
	if shut := (*replay.ShutError)(nil); errors.As(err, &shut) {
		for _, i := range shut.Left {
			a.loop.items = append(a.loop.items, items[i])
		}
		return true, nil
	}
	return false, err
}

func (e *Experiment) answer(ctx context.Context, q question) (measured, error) {
	w, err := raysys.Lookup[Weights](ctx, weightsName(e, q.Run)).Get(ctx)
	if err != nil {
		return measured{}, err
	}
	return e.measure(ctx, w, q)
}
