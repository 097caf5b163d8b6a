package params

import (
	"fmt"
	"math"
)

// Float is what weights are made of.
type Float interface{ ~float32 | ~float64 }

// Rule names how a step is made.
type Rule uint8

// The rules.
const (
	RuleSGD Rule = iota + 1
	RuleMomentum
	RuleAdam
)

// Optimizer is a rule with its numbers. Make it with SGD, Momentum or Adam.
type Optimizer struct {
	Rule    Rule
	Rate    float64
	Beta1   float64 // Momentum: the share of the velocity that stays; Adam: of the mean
	Beta2   float64 // Adam: of the mean square
	Epsilon float64 // Adam
}

// SGD is w -= rate g.
func SGD(rate float64) Optimizer { return Optimizer{Rule: RuleSGD, Rate: rate} }

// Momentum is v = mu v + g, w -= rate v (Polyak 1964).
func Momentum(rate, mu float64) Optimizer {
	return Optimizer{Rule: RuleMomentum, Rate: rate, Beta1: mu}
}

// Adam is algorithm 1 of Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), with its proposed numbers but
// for the rate: beta1 0.9, beta2 0.999, epsilon 1e-8.
func Adam(rate float64) Optimizer {
	return Optimizer{Rule: RuleAdam, Rate: rate, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
}

func (o Optimizer) validate() error {
	share := func(x float64) bool { return x >= 0 && x < 1 }
	switch {
	case o.Rule < RuleSGD || o.Rule > RuleAdam:
		return fmt.Errorf("%w: no optimizer: make one with SGD, Momentum or Adam", ErrConfig)
	case !(o.Rate > 0) || math.IsInf(o.Rate, 0):
		return fmt.Errorf("%w: the rate is %v: give a positive number", ErrConfig, o.Rate)
	case !share(o.Beta1) || !share(o.Beta2):
		return fmt.Errorf("%w: beta1 is %v and beta2 %v: give numbers from 0 to below 1", ErrConfig, o.Beta1, o.Beta2)
	case o.Rule == RuleAdam && !(o.Epsilon > 0):
		return fmt.Errorf("%w: epsilon is %v: give a positive number", ErrConfig, o.Epsilon)
	}
	return nil
}

// memory is what a rule remembers between steps, as long as the weights where the rule needs it.
type memory[T Float] struct {
	first, second []T
}

// step sets dst, which may be w, to the weights after step number t, counted from 1, on gradient g.
func step[T Float](o Optimizer, dst, w, g []T, m *memory[T], t uint64) {
	switch o.Rule {
	case RuleSGD:
		sgd(dst, w, g, T(o.Rate))
	case RuleMomentum:
		m.grow(len(w), false)
		momentum(dst, w, g, m.first, T(o.Rate), T(o.Beta1))
	case RuleAdam:
		m.grow(len(w), true)
		adam(dst, w, g, m.first, m.second, t, o)
	}
}

func (m *memory[T]) grow(n int, second bool) {
	if len(m.first) != n {
		m.first = make([]T, n)
	}
	if second && len(m.second) != n {
		m.second = make([]T, n)
	}
}

func sgd[T Float](dst, w, g []T, rate T) {
	g, dst = g[:len(w)], dst[:len(w)]
	for i, x := range w {
		dst[i] = x - rate*g[i]
	}
}

// momentum changes v.
func momentum[T Float](dst, w, g, v []T, rate, mu T) {
	g, v, dst = g[:len(w)], v[:len(w)], dst[:len(w)]
	for i, x := range w {
		v[i] = mu*v[i] + g[i]
		dst[i] = x - rate*v[i]
	}
}

// adam changes m and v. The corrections of the bias are folded into the rate and epsilon, as section 2 of the paper does.
func adam[T Float](dst, w, g, m, v []T, t uint64, o Optimizer) {
	c1, c2 := 1-math.Pow(o.Beta1, float64(t)), math.Sqrt(1-math.Pow(o.Beta2, float64(t)))
	rate, epsilon := T(o.Rate*c2/c1), T(o.Epsilon*c2)
	b1, b2 := T(o.Beta1), T(o.Beta2)
	g, m, v, dst = g[:len(w)], m[:len(w)], v[:len(w)], dst[:len(w)]
	for i, x := range w {
		m[i] = b1*m[i] + (1-b1)*g[i]
		v[i] = b2*v[i] + (1-b2)*g[i]*g[i]
		dst[i] = x - rate*m[i]/(T(math.Sqrt(float64(v[i])))+epsilon)
	}
}
