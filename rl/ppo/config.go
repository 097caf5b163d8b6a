package ppo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// ErrConfig: a Config cannot be meant, or the algorithm cannot act in an environment.
var ErrConfig = errors.New("ppo: it cannot be meant")

// Config says how an agent learns. In every field zero is the default, which was tuned on CartPole; where none is a sensible wish, a negative value
// asks for it.
type Config struct {
	// Batch is how many steps an update learns from, at least: the learner keeps trajectories until it has them. 2048 unless set.
	Batch int

	// Hidden is the width of the two hidden layers of each net: 64 unless set, as in the paper's control tasks.
	Hidden int

	// LearningRate is Adam's step: 0.002 unless set, the middle of a plateau. From 0.0015 to 0.0025 CartPole takes the same number of steps, at the
	// customary 0.0003 twice as many. It is constant.
	LearningRate float64

	// Gamma is the discount of a step: 0.99 unless set, a horizon of 100 steps. Pendulum is learned sooner with 0.9.
	Gamma float64

	// Lambda weighs bias against variance in the advantages: 0.95 unless set, the middle of the range that Schulman et al. (2016) recommend.
	Lambda float64

	// RewardScale multiplies rewards before anything is learned from them: 1 unless set. The value net learns fast where discounted returns are near 1 to
	// 100, and slowly where they are larger. Returns that are reported are those of the environment.
	RewardScale float64

	// Clip bounds how far an update may move the probability of an action, as a ratio: 0.2 unless set (Schulman et al. 2017, table 1).
	Clip float64

	// Entropy weighs the bonus for an undecided policy: 0.01 unless set; negative: none.
	Entropy float64

	// Epochs is the largest number of passes over the steps of an update: 6 unless set. With 10 CartPole takes as many steps, and an update more time.
	Epochs int

	// Minibatch is the number of steps of a gradient: 128 unless set. The batch is cut into equal parts of about this size, so that no part is a mere rest
	// whose noise would count as much as a full one.
	Minibatch int

	// MaxGradNorm bounds the norm of the gradient of each net: 0.5 unless set; negative: unbounded. The nets are clipped apart: they share no parameter,
	// and the large early errors of the value net would silence the policy.
	MaxGradNorm float64

	// TargetKL ends an update after the first epoch whose mean divergence from the policy that acted is larger: 0.015 unless set, within the customary
	// 0.01 to 0.03; negative: never.
	TargetKL float64
}

// complete fills in the defaults, and refuses what cannot be meant. The conditions are written so that NaN fails them.
func (c Config) complete() (Config, error) {
	for field, otherwise := range map[*int]int{&c.Batch: 2048, &c.Hidden: 64, &c.Epochs: 6, &c.Minibatch: 128} {
		*field = cmp.Or(*field, otherwise)
	}
	for field, otherwise := range map[*float64]float64{
		&c.LearningRate: 0.002, &c.Gamma: 0.99, &c.Lambda: 0.95, &c.RewardScale: 1, &c.Clip: 0.2, &c.Entropy: 0.01, &c.MaxGradNorm: 0.5, &c.TargetKL: 0.015,
	} {
		*field = cmp.Or(*field, otherwise)
	}
	bad := func(field string, is any, give string) (Config, error) {
		return c, fmt.Errorf("%w: Config.%s is %v: give %s", ErrConfig, field, is, give)
	}
	const one, share = "1 or more", "more than 0, and 1 at most"
	switch {
	case c.Batch < 1:
		return bad("Batch", c.Batch, one)
	case c.Hidden < 1:
		return bad("Hidden", c.Hidden, one)
	case !(c.LearningRate > 0) || math.IsInf(c.LearningRate, 0):
		return bad("LearningRate", c.LearningRate, "a number above 0")
	case !(c.Gamma > 0 && c.Gamma <= 1):
		return bad("Gamma", c.Gamma, share)
	case !(c.Lambda > 0 && c.Lambda <= 1):
		return bad("Lambda", c.Lambda, share)
	case !(c.RewardScale > 0) || math.IsInf(c.RewardScale, 0):
		return bad("RewardScale", c.RewardScale, "a number above 0")
	case !(c.Clip > 0 && c.Clip < 1):
		return bad("Clip", c.Clip, "more than 0, and less than 1")
	case math.IsNaN(c.Entropy) || math.IsInf(c.Entropy, 0):
		return bad("Entropy", c.Entropy, "a number")
	case c.Epochs < 1:
		return bad("Epochs", c.Epochs, one)
	case c.Minibatch < 1:
		return bad("Minibatch", c.Minibatch, one)
	case math.IsNaN(c.MaxGradNorm):
		return bad("MaxGradNorm", c.MaxGradNorm, "a number")
	case math.IsNaN(c.TargetKL):
		return bad("TargetKL", c.TargetKL, "a number")
	}
	return c, nil
}
