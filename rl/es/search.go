package es

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// Search is an environment and a Config, under a name that all nodes know.
type Search struct {
	name   string
	config Config
	bad    error // in what was defined: Train returns it
	spec   rl.Spec
	model  model
	loop   func(seed uint64, p rl.Policy) (*rl.Loop, error)

	players grains.Kind[player]
	playing grains.Func[player, order, heard]
}

// Define makes a search, and an environment to see its Spec. Call it once, in a package variable, so that every node of the program knows it. Options are those
// of the players, which are spread over the nodes unless they say otherwise.
func Define[A rl.Action](name string, env func(seed uint64) rl.Env[A], c Config, opts ...grains.Option) *Search {
	s := &Search{name: name}
	if env == nil {
		s.bad = fmt.Errorf("%w: search %q has no environment", ErrConfig, name)
		return s
	}
	s.loop = func(seed uint64, p rl.Policy) (*rl.Loop, error) { return rl.NewLoop(env, seed, p, rl.Experience{}) }
	s.define(func() rl.Spec { return env(0).Spec() }, c, opts)
	return s
}

func (s *Search) define(spec func() rl.Spec, c Config, opts []grains.Option) {
	if s.config, s.bad = c.complete(); s.bad == nil {
		s.bad = s.readSpec(spec)
	}
	if s.bad != nil {
		s.bad = fmt.Errorf("search %q: %w", s.name, s.bad)
		return
	}
	s.players = grains.Define[player](s.name+".player", append([]grains.Option{grains.Placement(raysys.Spread), grains.Unfiltered()}, opts...)...)
	s.playing = grains.Method(s.players, "play", func(_ *player, ctx context.Context, o order) (heard, error) {
		return s.play(ctx, o)
	}).Idempotent().With(raysys.NoDeadline(), raysys.RetryIf(lost), raysys.Retries(10))
}

// lost: a node of a player below died, or stood apart, as a player's error says. It plays again, from the same seeds.
func lost(err error) bool {
	return raysys.Retriable(err) || errors.Is(err, raysys.ErrNodeDead) || errors.Is(err, raysys.ErrFenced) || errors.Is(err, raysys.ErrOutcomeUnknown)
}

// readSpec asks an environment for its Spec.
func (s *Search) readSpec(spec func() rl.Spec) (err error) {
	defer func() {
		if r := recover(); r != nil { // a program that never searches in it runs all the same
			err = fmt.Errorf("%w: its environment cannot be made: %v", ErrConfig, r)
		}
	}()
	s.spec = spec()
	s.model, err = modelOf(s.spec, s.config.Hidden)
	return err
}

// Policy acts by weights that Train or Random returned, for one goroutine.
func (s *Search) Policy() (rl.Policy, error) {
	if s.bad != nil {
		return nil, s.bad
	}
	return &policy{model: s.model}, nil
}

// Train improves fresh weights, update by update, until the plan's steps are made, or its goal is reached. Each update is a Point of the run. ctx comes
// from a runtime.
func (s *Search) Train(ctx context.Context, p Plan) (*rl.Run, error) {
	return s.run(ctx, p, func(c *course) error {
		h, err := c.playCandidates(near, s.config.Pairs)
		if err != nil {
			return err
		}
		c.count(h)
		if spread := h.spread(); spread > 0 { // else no candidate is better than another
			slopes := make([]float32, len(h.Sum))
			for i, x := range h.Sum {
				slopes[i] = -x / float32(float64(h.Episodes)*spread) // Adam goes downhill
			}
			c.params = append([]float32(nil), c.params...) // those of before may still be read
			c.adam.Step(c.params, slopes, s.config.LearningRate)
		}
		return nil
	})
}

// Random is the baseline: it draws weights. The best of each round are measured by episodes of their own, and the run keeps those that measured best.
func (s *Search) Random(ctx context.Context, p Plan) (*rl.Run, error) {
	best := math.Inf(-1)
	return s.run(ctx, p, func(c *course) error {
		h, err := c.playCandidates(drawn, 2*s.config.Pairs)
		if err != nil {
			return err
		}
		c.count(h)
		kept := c.params
		c.params = s.fresh(c.plan.Seed, h.BestOf)
		mean, err := c.evaluate(chosen)
		if err != nil {
			return err
		}
		if mean > best {
			best = mean
		} else {
			c.params = kept
		}
		return nil
	})
}

// Times that the weights are played to measure them: to choose among those that were drawn, at the end, and where that has to confirm a goal. At a Point it is
// a tenth of the candidates of an update.
const (
	chosen    = 20
	measured  = 10
	confirmed = 100
)

// course is a run that goes on.
type course struct {
	*Search
	*rl.Run
	ctx    context.Context
	plan   Plan
	key    string
	next   uint64 // candidate
	params []float32
	adam   net.Adam
}

// run goes on by rounds.
func (s *Search) run(ctx context.Context, p Plan, round func(*course) error) (*rl.Run, error) {
	p, err := p.complete()
	if err == nil {
		err = s.bad
	}
	if err != nil {
		return nil, err
	}
	c := &course{Search: s, ctx: ctx, plan: p, key: rand.Text(), params: s.fresh(p.Seed, math.MaxUint64)}
	c.Run = &rl.Run{Name: s.name, Env: s.spec, Seed: p.Seed, Actors: p.Workers, Goal: p.Goal, RandomReturn: s.spec.Random}
	if s.spec.Random == 0 {
		c.RandomReturn = math.NaN()
	}
	begin := time.Now()
	for err == nil && c.Steps < p.Steps && !c.Solved {
		if err = round(c); err == nil {
			err = c.measure(begin)
		}
	}
	if err == nil && !c.Solved {
		err = c.confirm()
	}
	if err != nil {
		return nil, fmt.Errorf("search %q: %w", s.name, err)
	}
	c.Took = time.Since(begin)
	c.Weights = rl.Weights{Model: s.model.String(), Steps: c.LearnerSteps, Params: c.params}
	return c.Run, nil
}

// playCandidates has the tree play so many candidates.
func (c *course) playCandidates(what what, candidates int) (heard, error) {
	o := order{What: what, Run: c.key, Workers: c.plan.Workers, Candidates: candidates, First: c.next, Seed: c.plan.Seed}
	if what != drawn {
		o.Weights = raysys.Put(c.ctx, c.params)
	}
	c.next += uint64(candidates)
	return c.Search.askPlayer(c.ctx, o).Get(c.ctx)
}

// count adds a round of candidates to the run.
func (c *course) count(h heard) {
	c.Steps += h.Steps
	c.Episodes += h.Episodes * c.config.Episodes
	c.LearnerSteps++
	c.Points = append(c.Points, rl.Point{
		Steps: c.Steps, Episodes: c.Episodes, LearnerSteps: c.LearnerSteps, Return: h.Returns / float64(h.Episodes), Loss: math.NaN(),
	})
}

// evaluate plays the weights so many times, and returns the mean.
func (c *course) evaluate(times int) (float64, error) {
	h, err := c.playCandidates(weights, times)
	if err != nil {
		return 0, err
	}
	c.next += uint64(max(0, chosen-times)) // the next candidates hang on their numbers, and not on how few episodes measured the last
	c.EvaluationSteps += h.Steps
	return h.Returns / float64(h.Episodes), nil
}

// measure completes the last point.
func (c *course) measure(begin time.Time) error {
	mean, err := c.evaluate(max(1, 2*c.config.Pairs/10))
	if err != nil {
		return err
	}
	at := &c.Points[len(c.Points)-1]
	at.Seconds, at.Evaluated = time.Since(begin).Seconds(), mean
	if c.plan.Goal == 0 || mean < c.plan.Goal {
		return nil
	}
	return c.confirm()
}

// confirm measures the weights by more episodes.
func (c *course) confirm() (err error) {
	times := measured
	if c.plan.Goal != 0 {
		times = confirmed
	}
	if c.MeanReturn, err = c.evaluate(times); err != nil {
		return err
	}
	c.Solved = c.plan.Goal != 0 && c.MeanReturn >= c.plan.Goal
	return nil
}
