package rl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys/grains/replay"
)

// single is a run in the goroutine of the caller: after each step of the environment the learner makes as many as the limiter of the table allows.
type single struct {
	*course
	table   *replay.Local[Trajectory]
	learner Learner
	loop    *Loop
}

func (e *Experiment) single(ctx context.Context, plan Plan) (*Run, error) {
	c, err := e.begin(ctx, plan)
	if err != nil {
		return nil, err
	}
	s := &single{course: c}
	ctx, end := context.WithCancel(ctx) // the environment ends with the run
	defer end()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	defer c.record.close()
	late := newLateness("the first episode")
	for c.goes() {
		if c.now.Steps%64 == 0 {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if s.loop.number == 0 {
				late.sayOnce(ctx, s.loop)
			}
		}
		if err := s.step(ctx); err != nil {
			return nil, err
		}
		if c.due() {
			if err := errors.Join(s.measure(ctx), s.keep(ctx)); err != nil {
				return nil, err
			}
		}
	}
	c.took = time.Since(c.began)
	run, err := c.end(func() error {
		_, shut := s.table.Sample(e.x.Batch)
		return shut
	}, func(q question) (measured, Weights, error) {
		w := s.weights()
		m, err := e.measure(ctx, w, q)
		return m, w, err
	})
	switch {
	case err != nil:
		return nil, err
	case s.paused():
		err = s.keep(ctx)
	default:
		err = e.drop(ctx, &plan)
	}
	return run, err
}

func (s *single) prepare(ctx context.Context) (err error) {
	if s.table, err = replay.NewLocal[Trajectory](s.e.x.Table, s.plan.Seed); err != nil {
		return err
	}
	if s.learner, err = s.e.agent.Learner(ctx, s.spec, s.plan.Seed); err != nil {
		return err
	}
	if err := s.resume(ctx); err != nil {
		return err
	}
	policy, err := s.e.agent.Policy(s.spec)
	if err != nil {
		return err
	}
	if s.loop, err = newLoop(ctx, s.e.make, seedOf(s.plan.Seed, uint64(s.now.Steps)<<32), policy, &s.e.x); err != nil {
		return err
	}
	s.loop.huge = s.e.warnHuge(ctx)
	return s.loop.Load(s.weights())
}

// resume goes on from the last checkpoint of a run that is kept.
func (s *single) resume(ctx context.Context) error {
	c, err := s.e.load(ctx, &s.plan)
	if err != nil || c.Model == "" {
		return err
	}
	if err := errors.Join(c.of(s.plan.named(), s.plan.Seed), c.restore(ctx, s.learner)); err != nil {
		return err
	}
	s.goOnFrom(c.EnvSteps, c.Episodes, c.Steps, c.Seconds, c.Random)
	return nil
}

// measure makes a point.
func (s *single) measure(ctx context.Context) error {
	p, m := s.mark(), unmeasured
	if s.evaluates() {
		var err error
		if m, err = s.e.measure(ctx, s.weights(), s.question(false)); err != nil {
			return err
		}
	}
	return s.point(p, m)
}

// keep makes a checkpoint of a run that is kept: each time a point is made. Before the first step of the learner it has nothing that a run that begins anew
// lacks, and the items that were played are no part of it: a short run that went on from there could end before there are enough of them again.
func (s *single) keep(ctx context.Context) error {
	if !s.plan.kept() || s.now.LearnerSteps == 0 {
		return nil
	}
	data, err := s.learner.MarshalBinary()
	if err != nil {
		return err
	}
	c := checkpoint{
		Model: s.learner.Model(), Seed: s.plan.Seed, Learner: data, Steps: s.now.LearnerSteps, EnvSteps: s.now.Steps, Episodes: s.now.Episodes,
		Seconds: s.seconds(), Random: s.known(),
	}
	return s.e.store(ctx, &s.plan, c)
}

func (s *single) weights() Weights {
	return Weights{s.learner.Model(), s.now.LearnerSteps, s.learner.Weights()}
}

// step is one of the environment, and what is due after it.
func (s *single) step(ctx context.Context) error {
	ended, err := s.loop.Step()
	if err != nil {
		return err
	}
	s.acted(1)
	if ended != nil {
		s.acted(0, *ended)
	}
	before := s.now.LearnerSteps
	for _, t := range s.loop.Take() {
		if err := s.insert(ctx, t); err != nil {
			return err
		}
	}
	if err := s.learn(ctx); err != nil {
		return err
	}
	if s.now.LearnerSteps > before {
		if err := s.loop.Load(s.weights()); err != nil {
			return err
		}
	}
	return nil
}

func (s *single) insert(ctx context.Context, t Trajectory) error {
	err := s.table.Insert(t, 1)
	if shut := (*replay.ShutError)(nil); !errors.As(err, &shut) {
		return err
	}
	if lerr := s.learn(ctx); lerr != nil {
		return lerr
	}
	if err := s.table.Insert(t, 1); err != nil {
		return fmt.Errorf("neither actor nor learner can go on: %w", err)
	}
	return nil
}

// learn learns as long as the table may be sampled.
func (s *single) learn(ctx context.Context) error {
	for {
		batch, err := s.table.Sample(s.e.x.Batch)
		if shut := (*replay.ShutError)(nil); errors.As(err, &shut) {
			return nil
		} else if err != nil {
			return err
		}
		learned, err := learn(ctx, s.learner, batch)
		if err != nil {
			return err
		}
		if learned.Priorities != nil {
			if err := s.table.Update(batch.Keys, learned.Priorities); err != nil {
				return err
			}
		}
		s.learned(s.now.LearnerSteps+learned.Steps, learned.Loss)
	}
}

// learn has the learner learn, and looks at what came of it.
func learn(ctx context.Context, l Learner, b Batch) (Learned, error) {
	learned, err := l.Learn(ctx, b)
	switch {
	case err != nil:
		return learned, err
	case !finite64(learned.Loss):
		return learned, fmt.Errorf("%w: its loss is %v", ErrDiverged, learned.Loss)
	case learned.Priorities != nil && len(learned.Priorities) != b.Len():
		return learned, fmt.Errorf("%w: the learner %s gave %d priorities for %d items", ErrPlan, l.Model(), len(learned.Priorities), b.Len())
	}
	return learned, nil
}
