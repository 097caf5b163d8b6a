package dqn

import (
	"slices"

	"github.com/raysys/raysys/rl"
)

// Set replaces the weights of a learner, and those of its target net.
func Set(l rl.Learner, params, target []float32) {
	l.(*learner).params, l.(*learner).target = slices.Clone(params), slices.Clone(target)
}

// Target are the weights of the target net.
func Target(l rl.Learner) []float32 { return l.(*learner).target }

// Gradient is that of the last step.
func Gradient(l rl.Learner) []float32 { return l.(*learner).grads }
