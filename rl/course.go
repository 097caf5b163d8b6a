package rl

import (
	"context"
	"math"
	"time"
)

// course is how a run goes, wherever its actors are: counters, evaluations, points.
type course struct {
	e      *Experiment
	plan   Plan
	spec   Spec
	record *record
	began  time.Time
	took   time.Duration // until the goal was reached or all steps were made

	resumed int // steps that the run went on from
	random  float64

	now     Point
	next    int // steps at the next point
	returns []float64
	recent  []float64 // returns of the last episodes, as a ring
	count   uint64    // evaluations
	last    measured
}

// nearby is how many episodes say whether an evaluation is worth its time.
const nearby = 20

// begin looks at the environment, and measures what random actions return in it.
func (e *Experiment) begin(ctx context.Context, plan Plan) (*course, error) {
	life, end := context.WithCancel(ctx)
	defer end()
	first, err := newLoop(life, e.make, seedOf(plan.Seed, seedRandom), nil, nil)
	if err != nil {
		return nil, err
	}
	if _, err := e.agent.Policy(first.spec); err != nil { // here, where its error is that of the agent's package
		return nil, err
	}
	c := &course{e: e, plan: plan, spec: first.spec, began: time.Now(), next: plan.Every}
	c.now.Loss, c.now.Return, c.now.Evaluated = math.NaN(), math.NaN(), math.NaN()
	if c.random, _, err = evaluate(ctx, e.make, seedOf(plan.Seed, seedRandom), nil, plan.episodes(), plan.Steps); err != nil {
		return nil, err
	}
	return c, nil
}

// open makes the record, once the counters of a run that goes on are known.
func (c *course) open() (err error) {
	c.skip()
	c.record, err = newRecord(c.e.name, &c.plan, c.random, c.now.Steps > 0)
	return err
}

// ended counts an episode of training.
func (c *course) ended(e Episode) {
	c.returns = append(c.returns, e.Return)
	if len(c.recent) < nearby {
		c.recent = append(c.recent, e.Return)
	} else {
		c.recent[c.now.Episodes%nearby] = e.Return
	}
	c.now.Episodes++
}

func (c *course) learned(l Learned) {
	if l.Steps > 0 {
		c.now.LearnerSteps += l.Steps
		c.now.Loss = l.Loss
	}
}

// due reports whether the next point is to be made, and shows how the run goes.
func (c *course) due() bool {
	c.record.show(&c.now)
	return c.now.Steps >= c.next
}

// near reports whether the returns of training are three quarters of the way from those of random actions to the goal.
func (c *course) near() bool {
	return c.plan.Stop.episodes > 0 && len(c.recent) >= min(nearby, c.plan.Stop.episodes) &&
		mean(c.recent) >= c.random+0.75*(c.plan.Stop.goal-c.random)
}

// measure makes a point, with an evaluation where it is worth its time.
func (c *course) measure(ctx context.Context, weights func() Weights) error {
	m := unmeasured
	if c.plan.Evaluate || c.near() {
		var err error
		if m, err = c.e.measure(ctx, weights(), c.question()); err != nil {
			return err
		}
	}
	return c.point(m)
}

// point makes a point.
func (c *course) point(m measured) error {
	c.last = m
	c.skip()
	c.now.Evaluated, c.now.Seconds = m.Mean, time.Since(c.began).Seconds()
	if c.now.Return = math.NaN(); len(c.returns) > 0 {
		c.now.Return = mean(c.returns)
	}
	c.returns = c.returns[:0]
	return c.record.add(c.now)
}

// skip finds the next point.
func (c *course) skip() {
	for c.next <= c.now.Steps {
		c.next += c.plan.Every
	}
}

// question is the next evaluation, on seeds of its own.
func (c *course) question() question {
	c.count++
	return question{
		Run: c.plan.Name, Spec: c.spec, Seeds: [2]uint64{seedOf(c.plan.Seed, seedEvaluate+c.count<<1), seedOf(c.plan.Seed, seedEvaluate+c.count<<1+1)},
		Episodes: c.plan.episodes(), Stops: c.plan.Stop.episodes > 0, Goal: c.plan.Stop.goal, Most: c.plan.Steps,
	}
}

// end makes the Run, whose last point was m where the goal was reached before all steps were made, and is made here else.
func (c *course) end(w Weights, m measured) (*Run, error) {
	if !c.last.Reached {
		if err := c.point(m); err != nil {
			return nil, err
		}
	}
	if err := c.record.close(); err != nil {
		return nil, err
	}
	return &Run{
		Name: c.e.name, Env: c.spec, Seed: c.plan.Seed, Actors: max(1, c.plan.Actors), Solved: m.Reached, MeanReturn: m.Final, RandomReturn: c.random,
		Steps: c.now.Steps, Episodes: c.now.Episodes, LearnerSteps: c.now.LearnerSteps, Took: c.took, Resumed: c.resumed, Goal: c.plan.Stop.goal,
		Points: c.record.points, Weights: w,
	}, nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
