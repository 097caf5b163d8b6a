package dqn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// ErrConfig: a Config cannot be meant, or the actions of an environment are vectors.
var ErrConfig = errors.New("dqn: it cannot be meant")

// Config has the settings of the algorithm. Zero is the default that each field names.
type Config struct {
	// NStep is how many steps of the environment are one item: 5. More of them carry a late reward back sooner, and tell more of the policy that acted.
	NStep int
	// Gamma discounts what comes a step later: 0.99.
	Gamma float64

	// Hidden are the widths of the hidden layers: 64 and 64. A list that is empty and not nil makes a linear net.
	Hidden []int
	// LearningRate is Adam's: 0.001.
	LearningRate float64
	// Batch is how many items a learner step has: 64.
	Batch int
	// Target is after how many learner steps the target net is copied: 100.
	Target int

	// Epsilon is the share of actions that are random: 0.05. Where FirstEpsilon is set, the share falls from there, in a straight line over the first
	// EpsilonSteps learner steps: 1,000. Until the first learner step all actions are random.
	Epsilon, FirstEpsilon float64
	EpsilonSteps          int

	// ReplaySize is how many items are kept: 100,000. MinSize is how many there are before the first learner step: 1,000, or ReplaySize where that is less.
	ReplaySize, MinSize int
	// SamplesPerInsert is how often an item is sampled in the mean: 16, which is a learner step for four of the environment where Batch is 64. It holds
	// whatever the number of actors, so that they learn the same.
	SamplesPerInsert float64

	// Prioritised samples items by the error that the learner last had of them, to the power of PriorityExponent: 0.6. Their losses are weighed by the
	// inverse of their probability to the power of ImportanceExponent: 0.2; the largest weight of a batch is 1.
	Prioritised        bool
	PriorityExponent   float64
	ImportanceExponent float64
}

// New makes the agent of a Config. What is wrong with that, its methods return: ErrConfig.
func New(c Config) rl.Agent {
	a := &agent{Config: c}
	a.bad = a.complete()
	return a
}

type agent struct {
	Config
	bad error
}

func (c *Config) complete() error {
	c.Hidden = slices.Clone(c.Hidden)
	if c.Hidden == nil {
		c.Hidden = []int{64, 64}
	}
	c.NStep, c.Gamma = or(c.NStep, 5), or(c.Gamma, 0.99)
	c.LearningRate, c.Batch, c.Target = or(c.LearningRate, 1e-3), or(c.Batch, 64), or(c.Target, 100)
	c.Epsilon = or(c.Epsilon, 0.05)
	c.FirstEpsilon, c.EpsilonSteps = or(c.FirstEpsilon, c.Epsilon), or(c.EpsilonSteps, 1000)
	c.ReplaySize = or(c.ReplaySize, 100_000)
	c.MinSize, c.SamplesPerInsert = or(c.MinSize, min(1000, c.ReplaySize)), or(c.SamplesPerInsert, 16)
	c.PriorityExponent, c.ImportanceExponent = or(c.PriorityExponent, 0.6), or(c.ImportanceExponent, 0.2)
	for _, f := range []struct {
		name      string
		value     float64
		low, high float64
	}{
		{"NStep", float64(c.NStep), 1, most},
		{"Gamma", c.Gamma, 0, 1},
		{"LearningRate", c.LearningRate, 0, most},
		{"Batch", float64(c.Batch), 1, most},
		{"Target", float64(c.Target), 1, most},
		{"Epsilon", c.Epsilon, 0, 1},
		{"FirstEpsilon", c.FirstEpsilon, 0, 1},
		{"EpsilonSteps", float64(c.EpsilonSteps), 1, most},
		{"ReplaySize", float64(c.ReplaySize), 1, most},
		{"MinSize", float64(c.MinSize), 1, float64(c.ReplaySize)},
		{"SamplesPerInsert", c.SamplesPerInsert, 0, most},
		{"PriorityExponent", c.PriorityExponent, 0, most},
		{"ImportanceExponent", c.ImportanceExponent, 0, most},
	} {
		if !(f.low <= f.value && f.value <= f.high) { // NaN is refused
			return fmt.Errorf("%w: Config.%s is %g: give %g to %g", ErrConfig, f.name, f.value, f.low, f.high)
		}
	}
	for _, width := range c.Hidden {
		if width < 1 {
			return fmt.Errorf("%w: Config.Hidden is %v: give widths of 1 or more", ErrConfig, c.Hidden)
		}
	}
	return nil
}

// most is the upper bound of what has none of its own: as many items as a table of replay holds.
const most = 1 << 30

func or[T int | float64](x, otherwise T) T {
	if x == 0 {
		return otherwise
	}
	return x
}

// Experience is a table whose limiter keeps learner and actors together. The error buffer is the samples of a tenth of MinSize, as in Acme: by
// defaults 100 steps of the environment, or 25 of the learner, that one of them may be ahead. That is little beside a run, so that it hardly matters
// how many actors there are. It is never so small that neither a batch nor an item would go through.
func (a *agent) Experience() (rl.Experience, error) {
	table := replay.Table{
		MaxSize: a.ReplaySize,
		Limiter: replay.SampleToInsertRatio(a.SamplesPerInsert, a.MinSize, max(0.1*a.SamplesPerInsert*float64(a.MinSize), float64(a.Batch)+a.SamplesPerInsert)),
	}
	if a.Prioritised {
		table.Sampler = replay.Prioritized(a.PriorityExponent)
	}
	return rl.Experience{Adder: rl.NStep(a.NStep, a.Gamma), Table: table, Batch: a.Batch}, a.bad
}

// layout is the net for an environment: an output for each action.
func (a *agent) layout(spec *rl.Spec) (net.MLP, error) {
	if a.bad != nil {
		return net.MLP{}, a.bad
	}
	if spec.Actions < 1 {
		return net.MLP{}, fmt.Errorf("%w: the actions of %s are vectors, and DQN chooses among numbered ones: use rl/ppo", ErrConfig, spec.Name)
	}
	return net.New(net.ReLU, slices.Concat([]int{spec.Size()}, a.Hidden, []int{spec.Actions})...), nil
}

func model(m net.MLP) string { return "dqn " + m.String() }
