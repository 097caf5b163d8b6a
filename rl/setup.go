package rl

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/system"
)

// Setup is what learns, and where.
type Setup[A Action] struct {
	// Env makes an environment. EnvOn is for one that calls grains, such as those that own a process of Python: its ctx lives as long as the environment
	// is used. Give one of them.
	Env   func(seed uint64) Env[A]
	EnvOn func(ctx context.Context, seed uint64) Env[A]
	// Agent learns in it.
	Agent Agent
	// Learner and Actors are options of these grains: grains.Holds(raysys.GPU(1)) places a learner on a node with a GPU. Actors are spread over
	// the nodes unless the options say otherwise.
	Learner, Actors []grains.Option
	// Shards is over how many grains the replay table is spread: 1 unless set. Sizes and limits of the table are those of each shard. It is for items that the
	// memory of one node does not hold: a limiter in each of them makes actors and learner wait for each other more often.
	Shards int
}

// Experiment is a Setup under a name that all nodes know.
type Experiment struct {
	name  string
	make  maker
	agent Agent
	x     Experience
	bad   error // in the Setup: Train returns it
	here  bool  // it is a Variant

	memory *inMemory
	warned *sync.Map // names of runs of which the log says that they are not kept, and hugeSaid

	baselines *sync.Map // mean returns of random actions, by baselineKey

	replay   replay.Server[Trajectory]
	learners grains.Kind[learnerGrain]
	learn    grains.Func[learnerGrain, order, came]
	clear    grains.Act[learnerGrain, string]
	keep     grains.Act[learnerGrain, checkpoint]
	kept     grains.Func0[learnerGrain, checkpoint]
	actors   grains.Kind[actorGrain]
	play     grains.Func[actorGrain, stint, played]
	answers  grains.Func[actorGrain, question, measured]
	leave    grains.Act0[actorGrain]
}

// Define makes an experiment. Make it once, in a package variable, so that every node of the program knows it.
func Define[A Action](name string, s Setup[A]) *Experiment {
	e := &Experiment{name: name, memory: &inMemory{}, warned: &sync.Map{}}
	if adopt(e, &s); e.bad == nil {
		e.define(s.Learner, s.Actors, s.Shards)
	}
	return e
}

// Variant is e with another Setup, such as one with other settings of its Agent, for runs of one actor. They are made in the goroutine of the caller, on
// whatever node that is, and kept by the Name that their Plan has where those of e are. It needs no Define of its own, so that a task can make it.
func Variant[A Action](e *Experiment, s Setup[A]) *Experiment {
	v := *e
	v.here = true
	if v.bad == nil {
		adopt(&v, &s)
	}
	return &v
}

// adopt has e be an experiment of that setup.
func adopt[A Action](e *Experiment, s *Setup[A]) {
	e.make, e.agent, e.baselines = nil, s.Agent, &sync.Map{}
	if s.Env != nil {
		e.make = worlds(s.Env)
	} else if s.EnvOn != nil {
		e.make = worldsOn(s.EnvOn)
	}
	e.check()
}

// define makes the kinds of the grains of the experiment.
func (e *Experiment) define(learner, actor []grains.Option, shards int) {
	e.replay = replay.Define[Trajectory](e.name+".experience", replay.Config{Tables: []replay.Table{e.x.Table}, Shards: shards})
	e.learners = grains.Define[learnerGrain](e.name+".learner", append([]grains.Option{grains.Unfiltered()}, learner...)...)
	e.learn = grains.Method(e.learners, "learn", func(g *learnerGrain, ctx context.Context, o order) (came, error) {
		return g.learn(ctx, e, o)
	}).With(raysys.NoDeadline())
	e.clear = grains.Action(e.learners, "clear", func(g *learnerGrain, ctx context.Context, run string) error { return g.clear(ctx, e, run) })
	e.keep = grains.Action(e.learners, "keep", (*learnerGrain).keep)
	e.kept = grains.Method0(e.learners, "kept", (*learnerGrain).kept)
	e.actors = grains.Define[actorGrain](e.name+".actor", append([]grains.Option{grains.Placement(raysys.Spread), grains.Unfiltered()}, actor...)...)
	e.play = grains.Method(e.actors, "play", func(a *actorGrain, ctx context.Context, s stint) (played, error) {
		return a.play(ctx, e, s)
	}).With(raysys.NoDeadline())
	e.answers = grains.Method(e.actors, "evaluate", func(_ *actorGrain, ctx context.Context, q question) (measured, error) {
		return e.answer(ctx, q)
	}).With(raysys.NoDeadline())
	e.leave = grains.Action0(e.actors, "leave", func(_ *actorGrain, ctx context.Context) error { return grains.Deactivate(ctx) })
}

func (e *Experiment) check() {
	if e.make == nil || e.agent == nil {
		e.bad = fmt.Errorf("%w: experiment %q has no Env, or no Agent", ErrPlan, e.name)
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
	if x.Batch < 1 || x.Extra < 0 || x.Fresh < 0 {
		return fmt.Errorf("%w: Experience.Batch is %d, Extra %d and Fresh %d: give 1, 0 and 0 at least", ErrPlan, x.Batch, x.Extra, x.Fresh)
	}
	if x.Table.Endless() { // the learner of one goroutine would never end
		return fmt.Errorf("%w: Experience.Table gives samples without end, whether actors insert or not: give a Limiter such as replay.SampleToInsertRatio", ErrPlan)
	}
	_, err := replay.NewLocal[Trajectory](x.Table, 1)
	return err
}

// Train runs the experiment as the plan says. ctx comes from a runtime, such as that of system.Main; without one everything happens in the goroutine of
// the caller, and more than one actor is ErrNoRuntime.
//
// Goroutines that train at the same time take a raysys.Branch each. Of two that go on with one name the earlier one fails.
//
// It fails with ErrPlan where plan or setup cannot be meant, or the name is that of a run of another seed, with an *EnvError where an environment or a
// policy breaks the rules, with ErrDiverged where a loss is not a number, and with ErrModel where the checkpoint that it would go on from is of another
// net. What a node's death takes away comes back, and is no error, but for the death of the caller's own. An evaluation, or a first episode, that has not
// ended after 10 s is a line in the log; where the Spec has no MaxSteps, an episode of an evaluation is cut after a tenth of Plan.Steps, or after Plan.Steps
// where Plan.Episodes is given.
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

// Forget drops what a run that has ended early left on the nodes: its checkpoint, the weights under their name and the replay table. Train with that name
// begins anew. Of a run that goes on meanwhile it takes these away. What is in a Plan.Dir stays: remove the folder.
func (e *Experiment) Forget(ctx context.Context, name string) error {
	if e.bad != nil {
		return e.bad
	}
	if name == "" {
		return fmt.Errorf("%w: a run without a name leaves nothing to forget", ErrPlan)
	}
	if err := e.forget(ctx, name); err != nil {
		return fmt.Errorf("forget %q of %q: %w", name, e.name, err)
	}
	return nil
}

// Unload has actor i, counted from 0, of a run that has a name leave memory, on whatever node it is, as grains.Unload says: its next turn begins new episodes,
// on a node that has room. An actor that is not active stays so.
func (e *Experiment) Unload(ctx context.Context, name string, i int) error {
	if e.bad != nil {
		return e.bad
	}
	return grains.Unload(ctx, e.actors.Get(actorKey(name, i)))
}

// Latest are the newest weights of a run that has a name and goes on, from any node: what serves them asks again now and then. Before the first are there,
// and once the run has ended, the Ref fails with raysys.ErrNotFound; the weights at the end are in the Run.
func (e *Experiment) Latest(ctx context.Context, name string) raysys.Ref[Weights] {
	return raysys.Lookup[Weights](ctx, weightsName(e, name))
}

// actorKey is the key of actor i of a run.
func actorKey(run string, i int) string { return fmt.Sprintf("%s/%d", run, i) }

func (e *Experiment) forget(ctx context.Context, run string) error {
	e.memory.set(run, checkpoint{})
	if system.NodeOf(ctx) == nil {
		return nil
	}
	_, err := e.clear.Call(ctx, e.learners.Get(run), run).Get(ctx)
	return errors.Join(err, e.replay.Get(run).Clear(ctx))
}

func (e *Experiment) train(ctx context.Context, plan Plan) (*Run, error) {
	e.warnForgetful(ctx, &plan)
	switch {
	case e.here && plan.Actors > 1:
		return nil, fmt.Errorf("%w: Plan.Actors is %d: a Variant has one actor, in the goroutine of the caller", ErrPlan, plan.Actors)
	case e.here, plan.Actors <= 1 && alone(ctx):
		return e.single(ctx, plan)
	}
	return e.drive(ctx, plan)
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
