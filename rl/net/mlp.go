package net

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// MLP is the layout of a perceptron with linear outputs in one vector of parameters. New makes it; it never changes.
type MLP struct {
	hidden Activation
	layers []layer
}

// layer computes y = x W + b. W lies at w and b at b; W has a row for each input, so that every sum goes over contiguous rows.
type layer struct{ in, out, w, b int }

// New makes a perceptron whose layers have these widths. The first width is that of an observation, the last that of the outputs. New panics on fewer
// than two widths, on a width below 1 and on an unknown activation.
func New(hidden Activation, widths ...int) MLP {
	m := MLP{hidden: hidden}
	if hidden > ReLU {
		panic(fmt.Sprintf("net: New: unknown activation %d", hidden))
	}
	if len(widths) < 2 {
		panic(fmt.Sprintf("net: New: widths %v, want those of the input and of the output at least", widths))
	}
	at := 0
	for i, width := range widths {
		if width < 1 {
			panic(fmt.Sprintf("net: New: widths %v, number %d is below 1", widths, i))
		}
		if i == 0 {
			continue
		}
		l := layer{in: widths[i-1], out: width, w: at}
		l.b = l.w + l.in*l.out
		at = l.b + l.out
		m.layers = append(m.layers, l)
	}
	return m
}

// Size is the number of parameters.
func (m MLP) Size() int {
	last := m.last()
	return last.b + last.out
}

// In is the width of an observation.
func (m MLP) In() int {
	m.last()
	return m.layers[0].in
}

// Out is the width of the outputs.
func (m MLP) Out() int { return m.last().out }

// last is the output layer.
func (m MLP) last() layer {
	if len(m.layers) == 0 {
		panic("net: an MLP that New did not make")
	}
	return m.layers[len(m.layers)-1]
}

// String has the widths and the activation, such as "4-64-64-2 tanh". Nets of one String take each other's parameters.
func (m MLP) String() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(m.In()))
	for _, l := range m.layers {
		b.WriteString("-" + strconv.Itoa(l.out))
	}
	return b.String() + " " + m.hidden.String()
}

// Init draws orthogonal weights and leaves the biases 0. Gain sqrt(2) in the hidden layers keeps the variance of the signal; outputGain is that
// of the output layer: 0.01 makes a policy start undecided, 1 is usual for values (Huang et al., "The 37 implementation details of PPO", 2).
func (m MLP) Init(rng *rand.Rand, outputGain float64) []float32 {
	params := make([]float32, m.Size())
	for i, l := range m.layers {
		gain := math.Sqrt2
		if i == len(m.layers)-1 {
			gain = outputGain
		}
		orthogonal(params[l.w:l.b], l.in, l.out, gain, rng)
	}
	return params
}

// orthogonal fills the rows x cols matrix w with one whose shorter side is orthonormal, times gain. Gram and Schmidt's vectors of Gaussian ones
// are uniform over such matrices. It computes in float64: what the vectors lack in orthogonality is then below the rounding of a float32.
func orthogonal(w []float32, rows, cols int, gain float64, rng *rand.Rand) {
	long, short := max(rows, cols), min(rows, cols)
	basis := make([][]float64, short)
	for i := range basis {
		v := make([]float64, long)
		for k := range v {
			v[k] = rng.NormFloat64()
		}
		for _, u := range basis[:i] {
			c := dot(u, v)
			for k := range v {
				v[k] -= c * u[k]
			}
		}
		norm := math.Sqrt(dot(v, v))
		for k := range v {
			v[k] /= norm
			if rows <= cols {
				w[i*cols+k] = float32(gain * v[k])
			} else {
				w[k*cols+i] = float32(gain * v[k])
			}
		}
		basis[i] = v
	}
}

func dot(u, v []float64) (sum float64) {
	for i := range u {
		sum += u[i] * v[i]
	}
	return sum
}
