package rl

import (
	"context"
	"fmt"
	"math"
	"time"
)

// course is how a run goes, wherever its actors are: what is counted, when a point is taken, and when and how the run ends. A run in one
// goroutine (single.go) and one of grains (driver.go) differ in who plays, learns and evaluates, and in nothing that is said here.
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

// goOnFrom has a run go on from the counters of a checkpoint.
func (c *course) goOnFrom(steps, episodes, learnerSteps int) {
	c.resumed = steps
	c.now.Steps, c.now.Episodes, c.now.LearnerSteps = steps, episodes, learnerSteps
}

// acted counts steps of training, and the episodes that ended in them.
func (c *course) acted(steps int, ended ...Episode) {
	c.now.Steps += steps
	for _, e := range ended {
		c.returns = append(c.returns, e.Return)
		if len(c.recent) < nearby {
			c.recent = append(c.recent, e.Return)
		} else {
			c.recent[c.now.Episodes%nearby] = e.Return
		}
		c.now.Episodes++
	}
}

// learned counts the steps of the learner, of which there are so many now.
func (c *course) learned(steps int, loss float64) {
	if steps > c.now.LearnerSteps {
		c.now.LearnerSteps, c.now.Loss = steps, loss
	}
}

// goes reports whether the run goes on.
func (c *course) goes() bool { return c.now.Steps < c.plan.Until && !c.last.Reached }

// paused reports whether the run is kept although Train is over: its Until came before its end.
func (c *course) paused() bool { return c.now.Steps < c.plan.Steps && !c.last.Reached }

// due reports whether a point is to be made, and shows how the run goes. The last point is that of the end.
func (c *course) due() bool {
	c.record.show(&c.now)
	return c.now.Steps >= c.next && c.now.Steps < c.plan.Until
}

// evaluates reports whether the point that is due has an evaluation: where the plan says so, or where the goal is near.
func (c *course) evaluates() bool { return c.plan.Evaluate || c.near() }

// near reports whether the returns of training are three quarters of the way from those of random actions to the goal.
func (c *course) near() bool {
	return c.plan.Stop.episodes > 0 && len(c.recent) >= min(nearby, c.plan.Stop.episodes) &&
		mean(c.recent) >= c.random+0.75*(c.plan.Stop.goal-c.random)
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

// end makes the Run: of the weights that reached the goal, or else of the last ones, which final evaluates. shut is why the learner cannot sample.
func (c *course) end(shut func() error, final func(question) (measured, Weights, error)) (*Run, error) {
	m, w := c.last, c.last.Weights
	if !m.Reached {
		if c.now.LearnerSteps == 0 {
			return nil, fmt.Errorf("the learner made no step in %d of the environment: %w", c.now.Steps, shut())
		}
		var err error
		if m, w, err = final(c.question()); err != nil {
			return nil, err
		}
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
