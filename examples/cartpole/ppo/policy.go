package ppo

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Policy acts by Weights, one observation at a time and without allocating. It
// holds scratch memory, so each goroutine needs its own; the weights it reads
// are shared.
type Policy struct {
	w      Weights
	policy net
	value  net
	// layers has the scratch of each layer of either net: they have the same
	// hidden widths, and the output is the wider of the two.
	layers   [][]float64
	logProbs []float64
}

// NewPolicy returns a policy that acts by w. It panics on weights that fail
// Check.
func NewPolicy(w Weights) *Policy {
	if err := w.Check(); err != nil {
		panic(err)
	}
	p := &Policy{w: w, policy: w.policyNet(), value: w.valueNet(), logProbs: make([]float64, w.Actions)}
	for _, l := range p.policy {
		p.layers = append(p.layers, make([]float64, l.out))
	}
	return p
}

// Act samples an action and returns its log-probability with it.
func (p *Policy) Act(obs []float64, rng *rand.Rand) (action int, logProb float64) {
	logProbs := p.LogProbs(obs)
	u := rng.Float64()
	for a, lp := range logProbs {
		if u -= math.Exp(lp); u < 0 {
			return a, lp
		}
	}
	// The probabilities sum to one only up to rounding.
	last := len(logProbs) - 1
	return last, logProbs[last]
}

// Greedy returns the most probable action, the lowest of equal ones.
func (p *Policy) Greedy(obs []float64) int {
	best := 0
	logits := p.eval(p.policy, p.w.Policy, obs)
	for a, l := range logits {
		if l > logits[best] {
			best = a
		}
	}
	return best
}

// LogProbs returns the log-probability of every action. The slice is valid until
// the next call.
func (p *Policy) LogProbs(obs []float64) []float64 {
	logSoftmax(p.logProbs, p.eval(p.policy, p.w.Policy, obs))
	return p.logProbs
}

// Value returns the estimated discounted return from obs.
func (p *Policy) Value(obs []float64) float64 { return p.eval(p.value, p.w.Value, obs)[0] }

func (p *Policy) eval(n net, params, obs []float64) []float64 {
	if len(obs) != p.w.Obs {
		panic(fmt.Sprintf("ppo: observation of %d values for a policy of %d", len(obs), p.w.Obs))
	}
	x := obs
	for i, l := range n {
		y := p.layers[i][:l.out]
		copy(y, l.bias(params))
		blas64.Gemv(blas.Trans, 1, l.weights(params),
			blas64.Vector{N: l.in, Inc: 1, Data: x}, 1, blas64.Vector{N: l.out, Inc: 1, Data: y})
		if i < len(n)-1 {
			tanh(y)
		}
		x = y
	}
	return x
}

// logSoftmax subtracts the largest logit first, so that no exponential
// overflows.
func logSoftmax(dst, logits []float64) {
	top := logits[0]
	for _, l := range logits[1:] {
		top = max(top, l)
	}
	var sum float64
	for _, l := range logits {
		sum += math.Exp(l - top)
	}
	norm := top + math.Log(sum)
	for i, l := range logits {
		dst[i] = l - norm
	}
}
