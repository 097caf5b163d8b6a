package net_test

import (
	"math"
	"testing"

	"github.com/raysys/raysys/rl/net"
)

// TestLearnsSine: both activations fit one wave of a sine to 1e-3 of mean squared error; the best constant has 0.5.
func TestLearnsSine(t *testing.T) {
	const rows = 64
	x, y := make([]float32, rows), make([]float32, rows)
	for i := range x {
		x[i] = 2*float32(i)/(rows-1) - 1
		y[i] = float32(math.Sin(math.Pi * float64(x[i])))
	}
	for _, hidden := range []net.Activation{net.Tanh, net.ReLU} {
		m := net.New(hidden, 1, 32, 32, 1)
		params, grads, dOut := m.Init(source(1), 1), make([]float32, m.Size()), make([]float32, rows)
		var (
			w      net.Workspace
			a      net.Adam
			square float32
		)
		for range 600 {
			square = 0
			for i, v := range m.Forward(params, x, &w) {
				e := v - y[i]
				square += e * e / rows
				dOut[i] = 2 * e / rows
			}
			m.Backward(params, &w, dOut, grads)
			a.Step(params, grads, 3e-3)
		}
		if !(square < 1e-3) {
			t.Errorf("%v: a mean squared error of %v remains", m, square)
		}
	}
}
