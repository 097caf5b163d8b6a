package descent

import (
	"math"
	"slices"

	"github.com/raysys/raysys/rl/net"
)

// Descent is the parameters that an optimizer moves.
type Descent struct {
	Params []float32
	Adam   net.Adam
}

// epsilon is Adam's: the gradients of a good policy are tiny, and the usual 1e-8 makes full steps of their noise.
const epsilon = 1e-5

// New begins at params.
func New(params []float32) Descent {
	return Descent{params, net.Adam{Epsilon: epsilon, M: make([]float32, len(params)), V: make([]float32, len(params))}}
}

// Clone shares nothing with d.
func (d Descent) Clone() Descent {
	d.Params, d.Adam.M, d.Adam.V = slices.Clone(d.Params), slices.Clone(d.Adam.M), slices.Clone(d.Adam.V)
	return d
}

// Step descends along grads, whose norm it bounds where limit is above 0. It changes grads.
func (d *Descent) Step(grads []float32, limit, rate float64) {
	if limit > 0 {
		net.ClipNorm(grads, limit)
	}
	d.Adam.Step(d.Params, grads, rate)
}

// Finite reports whether all parameters are: NaN and both infinities survive a sum, or meet in it as NaN.
func (d Descent) Finite() bool {
	sum := 0.0
	for _, v := range d.Params {
		sum += float64(v)
	}
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}
