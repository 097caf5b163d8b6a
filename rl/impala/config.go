package impala

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// ErrConfig: a Config cannot be meant, or the algorithm cannot act in an environment.
var ErrConfig = errors.New("impala: it cannot be meant")

// Config says how an agent learns. In every field zero is the default; where none is a sensible wish, a negative value asks for it.
type Config struct {
	// Batch is how many steps an update learns from, at least: the learner keeps trajectories until it has them. 512 unless set.
	Batch int

	// Unroll is how many steps a trajectory has at most: 64 unless set. The paper has 20 for frames of games, and more bootstrapping with it.
	Unroll int

	// Passes is how many gradient steps an update makes of its steps: 2 unless set. The second sees steps that are one gradient older, which V-trace
	// corrects as it corrects those of an actor that is behind.
	Passes int

	// Hidden is the width of the two hidden layers of each net: 64 unless set.
	Hidden int

	// LearningRate is Adam's step: 0.002 unless set, which was tuned on Catch. It is constant.
	LearningRate float64

	// Gamma is the discount of a step: 0.99 unless set.
	Gamma float64

	// Lambda weighs bias against variance in the targets of the value net: 1 unless set, as in the paper. Below 1 the advantage of the policy is still the
	// paper's, by the whole target of the next step. rlax takes Lambda times that target and 1 - Lambda times the value there: its advantages differ then.
	Lambda float64

	// Rho bounds the importance weight of a step, and with it which policy is valued: the smaller it is, the nearer to that which acted, and the less
	// variance there is. 2 unless set; the paper has 1, by which 64 actors take half as many steps again on CartPole. The weights by which later steps
	// count are bounded by 1.
	Rho float64

	// RewardScale multiplies rewards before anything is learned from them: 1 unless set.
	RewardScale float64

	// Entropy weighs the bonus for an undecided policy: 0.01 unless set; negative: none.
	Entropy float64

	// MaxGradNorm bounds the norm of the gradient of each net: 0.5 unless set; negative: unbounded.
	MaxGradNorm float64
}

// complete fills in the defaults, and refuses what cannot be meant. The conditions are written so that NaN fails them.
func (c Config) complete() (Config, error) {
	for field, otherwise := range map[*int]int{&c.Batch: 512, &c.Unroll: 64, &c.Passes: 2, &c.Hidden: 64} {
		*field = cmp.Or(*field, otherwise)
	}
	for field, otherwise := range map[*float64]float64{
		&c.LearningRate: 0.002, &c.Gamma: 0.99, &c.Lambda: 1, &c.Rho: 2, &c.RewardScale: 1, &c.Entropy: 0.01, &c.MaxGradNorm: 0.5,
	} {
		*field = cmp.Or(*field, otherwise)
	}
	bad := func(field string, is any, give string) (Config, error) {
		return c, fmt.Errorf("%w: Config.%s is %v: give %s", ErrConfig, field, is, give)
	}
	const one, share, above = "1 or more", "more than 0, and 1 at most", "a number above 0"
	switch {
	case c.Batch < 1:
		return bad("Batch", c.Batch, one)
	case c.Unroll < 1:
		return bad("Unroll", c.Unroll, one)
	case c.Passes < 1:
		return bad("Passes", c.Passes, one)
	case c.Hidden < 1:
		return bad("Hidden", c.Hidden, one)
	case !(c.LearningRate > 0) || math.IsInf(c.LearningRate, 0):
		return bad("LearningRate", c.LearningRate, above)
	case !(c.Gamma > 0 && c.Gamma <= 1):
		return bad("Gamma", c.Gamma, share)
	case !(c.Lambda > 0 && c.Lambda <= 1):
		return bad("Lambda", c.Lambda, share)
	case !(c.Rho > 0):
		return bad("Rho", c.Rho, above)
	case !(c.RewardScale > 0) || math.IsInf(c.RewardScale, 0):
		return bad("RewardScale", c.RewardScale, above)
	case math.IsNaN(c.Entropy) || math.IsInf(c.Entropy, 0):
		return bad("Entropy", c.Entropy, "a number")
	case math.IsNaN(c.MaxGradNorm):
		return bad("MaxGradNorm", c.MaxGradNorm, "a number")
	}
	return c, nil
}
