package rl

import (
	"context"
	"errors"
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

	resumed int     // steps that the run went on from
	before  float64 // seconds that it had taken by then
	random  float64 // mean return of random actions: NaN where it is not known

	now     Point
	next    int // steps at the next point
	returns []float64
	recent  []float64 // returns of the last episodes, as a ring
	count   uint64    // evaluations
	last    measured

	longest   int // steps of an episode of training, or of an evaluation
	baselined int // steps that were made to measure random actions
	evaluated int // steps of evaluations
	counted   int // of these, those that count to pointShare
}

// What is no training costs this part of its steps at most, unless Plan.Episodes is given. An episode of the end is played always.
const (
	pointShare    = 10 // evaluations of Points
	baselineShare = 20 // random actions
	extraShare    = 5  // these, and the evaluation of the end, all together
)

// nearby is how many episodes say whether an evaluation is worth its time.
const nearby = 20

// begin looks at the environment.
func (e *Experiment) begin(ctx context.Context, plan Plan) (*course, error) {
	life, end := context.WithCancel(ctx)
	defer end()
	seed := seedOf(plan.Seed, seedRandom)
	first, err := newLoop(life, e.make, seed, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := specFaults(first.world.vector, first.spec, seed); err != nil {
		return nil, err
	}
	if _, err := e.agent.Policy(first.spec); err != nil { // here, where its error is that of the agent's package
		return nil, err
	}
	c := &course{e: e, plan: plan, spec: first.spec, began: time.Now(), next: plan.Every, random: math.NaN()}
	c.now.Loss, c.now.Return, c.now.Evaluated = math.NaN(), math.NaN(), math.NaN()
	return c, nil
}

// open makes the record, with the live line, once the counters of a run that goes on are known, and measures random actions then.
func (c *course) open(ctx context.Context) (err error) {
	c.skip()
	if c.record, err = newRecord(c.e.name, &c.plan, &c.now); err != nil {
		return err
	}
	if err := c.baseline(ctx); err != nil {
		return errors.Join(err, c.record.close())
	}
	c.record.random(c.random)
	return nil
}

// baselineKey says how a baseline was measured: the same key gives the same number, in whatever run it is measured first.
type baselineKey struct{ episodes, steps int }

// baseline is what random actions return: as the Spec says, as the run's checkpoint says, or as it is measured, once in an experiment.
func (c *course) baseline(ctx context.Context) error {
	if c.spec.Random != 0 {
		c.random = c.spec.Random
	}
	if !math.IsNaN(c.random) {
		return nil
	}
	steps := c.plan.Until - c.now.Steps
	key := baselineKey{c.plan.episodes(), min(steps/baselineShare, steps/extraShare-c.spec.MaxSteps)} // the end has room for its episode
	most := key.steps
	if c.plan.asked() {
		key.steps, most = math.MaxInt, c.plan.Steps
		if c.spec.MaxSteps > 0 {
			most = math.MaxInt
		}
	}
	if known, ok := c.e.baselines.Load(key); ok {
		c.random = known.(float64)
		return nil
	}
	if key.steps < 1 {
		return nil
	}
	t, err := evaluate(ctx, c.e.make, seedOf(0, seedRandom), nil, most, func(t *tally) bool { return t.within(key.episodes, key.steps) })
	if err != nil {
		return err
	}
	if c.baselined = t.steps; !t.cut { // else its return is not known
		c.random = t.mean()
	}
	c.e.baselines.Store(key, c.random)
	return nil
}

// known is the baseline for a checkpoint: empty where it is not known.
func (c *course) known() []float64 {
	if math.IsNaN(c.random) {
		return nil
	}
	return []float64{c.random}
}

// seconds are those since the run began, without those between two calls of Train.
func (c *course) seconds() float64 { return c.before + time.Since(c.began).Seconds() }

// goOnFrom has a run go on from the counters of a checkpoint.
func (c *course) goOnFrom(steps, episodes, learnerSteps int, seconds float64, random []float64) {
	c.resumed, c.before = steps, seconds
	if len(random) > 0 {
		c.random = random[0]
	}
	c.now.Steps, c.now.Episodes, c.now.LearnerSteps = steps, episodes, learnerSteps
}

// acted counts steps of training, and the episodes that ended in them.
func (c *course) acted(steps int, ended ...Episode) {
	c.now.Steps += steps
	for _, e := range ended {
		c.returns = append(c.returns, e.Return)
		c.longest = max(c.longest, e.Steps)
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

// looks reports whether Points are to be evaluated: where the plan says so, or where the goal is near.
func (c *course) looks() bool { return c.plan.Evaluate || c.near() }

// evaluates reports whether the point that is due has an evaluation: there may be no room for an episode.
func (c *course) evaluates() bool {
	return c.looks() && (c.plan.asked() || c.longest > 0 && c.room(false) >= c.longest)
}

// near reports whether the returns of training are three quarters of the way from those of random actions to the goal. Where the former are not known it
// is the way from nothing to a goal above it, or from twice a goal below it.
func (c *course) near() bool {
	goal, from := c.plan.Stop.goal, c.random
	if math.IsNaN(from) {
		from = goal - math.Abs(goal)
	}
	return c.plan.Stop.episodes > 0 && len(c.recent) >= min(nearby, c.plan.Stop.episodes) && mean(c.recent) >= from+0.75*(goal-from)
}

// room is how many steps the next evaluation may make.
func (c *course) room(last bool) int {
	made := c.now.Steps - c.resumed
	switch {
	case c.plan.asked():
		return math.MaxInt
	case !last:
		return made/pointShare - c.counted
	case made == 0: // a part that was made already
		made = c.now.Steps
	}
	return made/extraShare - c.baselined - c.counted
}

// mark is the point that is due, but for its evaluation.
func (c *course) mark() Point {
	c.skip()
	c.now.Seconds = c.seconds()
	if c.now.Return = math.NaN(); len(c.returns) > 0 {
		c.now.Return = mean(c.returns)
	}
	c.returns = c.returns[:0]
	return c.now
}

// point makes a point.
func (c *course) point(p Point, m measured) error {
	c.last = m
	c.evaluated += m.Steps
	c.counted += m.Counted
	c.longest = max(c.longest, m.Longest)
	p.Evaluated = m.Mean
	return c.record.add(p)
}

// skip finds the next point.
func (c *course) skip() {
	for c.next <= c.now.Steps {
		c.next += c.plan.Every
	}
}

// question is the next evaluation, on seeds of its own: of a Point, or the last one.
func (c *course) question(last bool) question {
	c.count++
	return question{
		Run: c.plan.Name, Spec: c.spec, Seeds: [2]uint64{seedOf(c.plan.Seed, seedEvaluate+c.count<<1), seedOf(c.plan.Seed, seedEvaluate+c.count<<1+1)},
		Episodes: c.plan.episodes(), Steps: c.room(last), Most: c.plan.most(), Stop: c.plan.Stop.episodes, Goal: c.plan.Stop.goal,
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
		p := c.mark()
		if m, w, err = final(c.question(true)); err != nil {
			return nil, err
		}
		if err := c.point(p, m); err != nil {
			return nil, err
		}
	}
	if err := c.record.close(); err != nil {
		return nil, err
	}
	return &Run{
		Name: c.e.name, Env: c.spec, Seed: c.plan.Seed, Actors: max(1, c.plan.Actors), Solved: m.Reached, MeanReturn: m.Final, RandomReturn: c.random,
		BaselineSteps: c.baselined, EvaluationSteps: c.evaluated,
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
