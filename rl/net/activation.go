package net

import "strconv"

// Activation is the nonlinearity of the hidden layers.
type Activation uint8

// The activations.
const (
	Tanh Activation = iota
	ReLU
)

func (a Activation) String() string {
	switch a {
	case Tanh:
		return "tanh"
	case ReLU:
		return "relu"
	}
	return "Activation(" + strconv.Itoa(int(a)) + ")"
}

func (a Activation) apply(x []float32) {
	if a == Tanh {
		tanh(x)
		return
	}
	for i, v := range x {
		x[i] = max(v, 0)
	}
}

// slope multiplies delta by the slope where the activation was y.
func (a Activation) slope(delta, y []float32) {
	delta = delta[:len(y)]
	if a == Tanh {
		for i, v := range y {
			delta[i] *= 1 - v*v
		}
		return
	}
	for i, v := range y {
		if v <= 0 {
			delta[i] = 0
		}
	}
}

// tanh computes in place x P(x^2) / Q(x^2), of degree 4 both, fitted to the least largest relative error up to 9.1 (2.3e-8; in float32
// 4e-7). From 9 on tanh is 1 in float32. It takes a fifth of the time of math.Tanh, which would be half of a pass.
func tanh(x []float32) {
	for i, v := range x {
		switch {
		case v > 9:
			x[i] = 1
		case v < -9:
			x[i] = -1
		default:
			s := v * v
			p := (((1.3177513e-08*s+2.0481178e-05)*s+3.4878104e-03)*s+1.3374475e-01)*s + 1
			q := (((7.7040416e-07*s+3.2729192e-04)*s+2.5847386e-02)*s+4.6707788e-01)*s + 1
			y := v * p / q
			if y > 1 { // by rounding
				y = 1
			} else if y < -1 {
				y = -1
			}
			x[i] = y
		}
	}
}
