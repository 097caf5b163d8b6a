package net_test

import (
	"fmt"
	"testing"

	"github.com/raysys/raysys/rl/net"
)

// BenchmarkPass is a minibatch of PPO through the net of a small policy: forward, and forward with backward.
func BenchmarkPass(b *testing.B) {
	for _, hidden := range []net.Activation{net.Tanh, net.ReLU} {
		m := net.New(hidden, 4, 64, 64, 2)
		params := m.Init(source(1), 1)
		grads := make([]float32, m.Size())
		for _, rows := range []int{1, 64, 256} {
			var w net.Workspace
			x, dOut := gaussian(source(2), rows*m.In()), gaussian(source(3), rows*m.Out())
			b.Run(fmt.Sprintf("%v/forward/rows=%d", hidden, rows), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.Forward(params, x, &w)
				}
			})
			b.Run(fmt.Sprintf("%v/both/rows=%d", hidden, rows), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.Forward(params, x, &w)
					m.Backward(params, &w, dOut, grads)
				}
			})
		}
	}
}

func BenchmarkAdam(b *testing.B) {
	m := net.New(net.Tanh, 4, 64, 64, 2)
	params, grads := m.Init(source(1), 1), gaussian(source(2), m.Size())
	var a net.Adam
	b.ReportAllocs()
	for b.Loop() {
		net.ClipNorm(grads, 0.5)
		a.Step(params, grads, 1e-9)
	}
}
