package rl

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
)

// Setup is what learns, and where.
type Setup[A Action] struct {
	// Env makes an environment.
	Env func(seed uint64) Env[A]
	// Agent learns in it.
	Agent Agent
}

// Experiment is a Setup under a name that all nodes know.
type Experiment struct {
	name  string
	make  func(seed uint64) *world
	agent Agent
	x     Experience
	bad   error // in the Setup: Train returns it
}

// Define makes an experiment. Make it once, in a package variable, so that every node of the program knows it.
func Define[A Action](name string, s Setup[A]) *Experiment {
	e := &Experiment{name: name, agent: s.Agent}
	if s.Env != nil {
		e.make = worlds(s.Env)
	}
	e.define()
	return e
}

func (e *Experiment) define() {
	if e.make == nil || e.agent == nil {
		e.bad = fmt.Errorf("%w: experiment %q has no Env or no Agent", ErrPlan, e.name)
		return
	}
	if e.x, e.bad = e.agent.Experience(); e.bad == nil {
		e.bad = e.x.complete()
	}
	if e.bad != nil {
		e.bad = fmt.Errorf("experiment %q: %w", e.name, e.bad)
	}
}

const experienceTable = "experience"

func (x *Experience) complete() error {
	if x.Table.Name == "" {
		x.Table.Name = experienceTable
	}
	if err := x.Adder.check(); err != nil {
		return fmt.Errorf("%w: Experience.Adder: %w", ErrPlan, err)
	}
	if x.Batch < 1 || x.Extra < 0 {
		return fmt.Errorf("%w: Experience.Batch is %d and Extra %d: give 1 and 0 at least", ErrPlan, x.Batch, x.Extra)
	}
	_, err := replay.NewLocal[Trajectory](x.Table, 1)
	return err
}

// Train runs the experiment as the plan says. ctx comes from a runtime, such as that of system.Main; without one everything happens in the goroutine of
// the caller.
//
// It fails with ErrPlan where plan or setup cannot be meant, with an *EnvError where an environment or a policy breaks the rules, with ErrDiverged where
// a loss is not a number, and with ErrModel where the checkpoint that it would go on from is of another net. What a node's death takes away
// comes back, and is no error.
func (e *Experiment) Train(ctx context.Context, plan Plan) (*Run, error) {
	plan, err := plan.complete()
	if err == nil {
		err = e.bad
	}
	if err != nil {
		return nil, err
	}
	run, err := e.train(ctx, plan)
	if err != nil {
		return nil, fmt.Errorf("train %q: %w", e.name, err)
	}
	return run, nil
}

func (e *Experiment) train(ctx context.Context, plan Plan) (*Run, error) {
	if plan.Actors <= 1 && alone(ctx) {
		return e.single(ctx, plan)
	}
	return nil, errors.New("not yet")
}

// alone reports whether there is no other node, or no runtime at all.
func alone(ctx context.Context) bool {
	n := system.NodeOf(ctx)
	if n == nil {
		return true
	}
	members, _ := n.Members()
	return len(members) <= 1
}

// ErrDiverged: the loss of a learner is not a number.
var ErrDiverged = errors.New("rl: the learner has diverged")

// ErrModel: weights or a checkpoint are of another net.
var ErrModel = errors.New("rl: another model")

func finite64(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
