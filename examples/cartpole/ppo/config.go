package ppo

import (
	"errors"
	"fmt"
)

// ErrConfig is the state of a Config no learner can work with.
var ErrConfig = errors.New("ppo: bad config")

// Config says how a Learner learns. In every field zero means the default,
// which was tuned on CartPole-v1 with eight rollouts of 256 steps an iteration;
// where none is a sensible wish, a negative value asks for it.
type Config struct {
	// Seed decides the initial weights and the order of minibatches. Two
	// learners with one Config that are given one sequence of trajectories hold
	// the same bits (on one CPU architecture: others round differently).
	Seed uint64

	// Hidden is the width of the two hidden layers of each net. Default 64, as
	// in the PPO paper's control tasks. Cart-pole needs less: it learns with 16
	// as well, in about as many steps.
	Hidden int

	// LearningRate is Adam's step. Default 0.002, the middle of a plateau: from
	// 0.0015 to 0.0025 cart-pole takes the same number of steps, at the customary
	// 0.0003 twice as many. It is constant: annealing it over 100k steps did not
	// change the number.
	LearningRate float64

	// Gamma is the discount per step. Default 0.99: a horizon of 100 steps, two
	// simulated seconds, in which every fall of the pole announces itself.
	Gamma float64

	// Lambda weighs bias against variance in the advantages (GAE, Schulman et
	// al. 2016). Default 0.95, the middle of the range the paper recommends.
	Lambda float64

	// Clip bounds how far one update may move the probability of an action, as
	// a ratio. Default 0.2, from the PPO paper (Schulman et al. 2017, table 1).
	Clip float64

	// Entropy weighs the bonus for an undecided policy. Default 0.01; negative:
	// none.
	Entropy float64

	// Epochs is the largest number of passes over the trajectories of one
	// update. Default 6: with 10 the steps needed are the same, the slowest seed
	// is slower, and an update takes longer.
	Epochs int

	// Minibatch is the number of steps in one gradient. Default 128. The batch
	// is cut into equal parts of about this size, so no part is a mere rest
	// whose noise would count as much as a full one. The default keeps every
	// product below the size from which gonum spreads it over goroutines (four
	// blocks of 64 by 64), so that an update uses the one CPU its task was given.
	Minibatch int

	// MaxGradNorm bounds the norm of each net's gradient. Default 0.5; negative:
	// unbounded. The nets are clipped apart: they share no parameter, and the
	// value net's large early errors would silence the policy.
	MaxGradNorm float64

	// TargetKL ends an update early, after the first epoch whose mean divergence
	// from the policy that acted exceeds it. Default 0.015, within
	// the customary 0.01 to 0.03; negative: never.
	TargetKL float64
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	or := func(v *float64, fallback float64) {
		if *v == 0 {
			*v = fallback
		}
	}
	orInt := func(v *int, fallback int) {
		if *v == 0 {
			*v = fallback
		}
	}
	orInt(&c.Hidden, 64)
	or(&c.LearningRate, 0.002)
	or(&c.Gamma, 0.99)
	or(&c.Lambda, 0.95)
	or(&c.Clip, 0.2)
	or(&c.Entropy, 0.01)
	orInt(&c.Epochs, 6)
	orInt(&c.Minibatch, 128)
	or(&c.MaxGradNorm, 0.5)
	or(&c.TargetKL, 0.015)
	return c
}

// check reports the first field of a filled-in Config that makes no sense.
// The conditions are written so that NaN fails them.
func (c Config) check() error {
	bad := func(field string, v any) error { return fmt.Errorf("%w: %s %v", ErrConfig, field, v) }
	switch {
	case c.Hidden < 0:
		return bad("Hidden", c.Hidden)
	case !(c.LearningRate > 0):
		return bad("LearningRate", c.LearningRate)
	case !(c.Gamma > 0 && c.Gamma <= 1):
		return bad("Gamma", c.Gamma)
	case !(c.Lambda > 0 && c.Lambda <= 1):
		return bad("Lambda", c.Lambda)
	case !(c.Clip > 0 && c.Clip < 1):
		return bad("Clip", c.Clip)
	case c.Entropy != c.Entropy:
		return bad("Entropy", c.Entropy)
	case c.Epochs < 0:
		return bad("Epochs", c.Epochs)
	case c.Minibatch < 0:
		return bad("Minibatch", c.Minibatch)
	case c.MaxGradNorm != c.MaxGradNorm:
		return bad("MaxGradNorm", c.MaxGradNorm)
	case c.TargetKL != c.TargetKL:
		return bad("TargetKL", c.TargetKL)
	}
	return nil
}
