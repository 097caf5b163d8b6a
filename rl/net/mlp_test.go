package net_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/rl/net"
)

func TestLayout(t *testing.T) {
	m := net.New(net.ReLU, 3, 5, 2)
	if m.Size() != 3*5+5+5*2+2 || m.In() != 3 || m.Out() != 2 || m.String() != "3-5-2 relu" {
		t.Errorf("%v: size %d, in %d, out %d", m, m.Size(), m.In(), m.Out())
	}
	if a, b := net.New(net.Tanh, 4, 2).String(), net.New(net.ReLU, 4, 2).String(); a != "4-2 tanh" || a == b {
		t.Errorf("two activations are %q and %q", a, b)
	}
}

// TestOrthogonal: the vectors along the shorter side of each layer are orthogonal and as long as the gain; biases are 0.
func TestOrthogonal(t *testing.T) {
	widths := []int{4, 64, 64, 2}
	params := net.New(net.Tanh, widths...).Init(source(1), 0.01)
	for l := range len(widths) - 1 {
		in, out := widths[l], widths[l+1]
		w, bias := params[:in*out], params[in*out:in*out+out]
		params = params[in*out+out:]
		gain := math.Sqrt2
		if l == len(widths)-2 {
			gain = 0.01
		}
		long, short := max(in, out), min(in, out)
		at := func(vector, i int) float64 {
			if in <= out {
				return float64(w[vector*out+i])
			}
			return float64(w[i*out+vector])
		}
		for a := range short {
			for b := range short {
				var got, want float64
				for i := range long {
					got += at(a, i) * at(b, i)
				}
				if a == b {
					want = gain * gain
				}
				if math.Abs(got-want) > 1e-6*gain*gain {
					t.Fatalf("layer %d: the product of vectors %d and %d is %v, want %v", l, a, b, got, want)
				}
			}
		}
		if slices.ContainsFunc(bias, func(b float32) bool { return b != 0 }) {
			t.Errorf("layer %d: biases %v", l, bias)
		}
	}
}

func TestInitBySeed(t *testing.T) {
	m := net.New(net.Tanh, 4, 8, 2)
	if !slices.Equal(m.Init(source(1), 1), m.Init(source(1), 1)) {
		t.Error("one seed drew two sets of parameters")
	}
	if slices.Equal(m.Init(source(1), 1), m.Init(source(2), 1)) {
		t.Error("two seeds drew one set of parameters")
	}
}

// TestMisuse: a wrong shape panics with the net, with what is wrong, and with what would be right.
func TestMisuse(t *testing.T) {
	m := net.New(net.Tanh, 3, 4, 2)
	params, grads := m.Init(source(1), 1), make([]float32, m.Size())
	var w, other, fresh net.Workspace
	x := make([]float32, 6)
	m.Forward(params, x, &w)
	taller := net.New(net.Tanh, 3, 5, 2)
	taller.Forward(make([]float32, taller.Size()), x, &other)
	for _, tc := range []struct {
		name string
		do   func()
		want string
	}{
		{"no layer", func() { net.New(net.Tanh, 3) }, "net: New: widths [3], want those of the input and of the output at least"},
		{"empty layer", func() { net.New(net.Tanh, 3, 0, 2) }, "net: New: widths [3 0 2], number 1 is below 1"},
		{"activation", func() { net.New(7, 3, 2) }, "net: New: unknown activation 7"},
		{"zero MLP", func() { _ = net.MLP{}.String() }, "net: an MLP that New did not make"},
		{"parameters", func() { m.Forward(params[1:], x, &w) }, "net: Forward of 3-4-2 tanh: 25 parameters, want 26"},
		{"part of a row", func() { m.Forward(params, x[:4], &w) }, "net: Forward of 3-4-2 tanh: a batch of 4 numbers, want a multiple of 3"},
		{"no row", func() { m.Forward(params, nil, &w) }, "net: Forward of 3-4-2 tanh: a batch of 0 numbers, want a multiple of 3"},
		{"no pass", func() { m.Backward(params, &fresh, x[:4], grads) }, "net: Backward of 3-4-2 tanh: no Forward of this net"},
		{"another's pass", func() { m.Backward(params, &other, x[:4], grads) }, "net: Backward of 3-4-2 tanh: no Forward of this net"},
		{"gradients", func() { m.Backward(params, &w, x[:4], grads[2:]) }, "net: Backward of 3-4-2 tanh: 26 parameters and 24 gradients, want 26"},
		{"outputs", func() { m.Backward(params, &w, x[:2], grads) }, "net: Backward of 3-4-2 tanh: the loss by 2 outputs, want 2 rows of 2"},
		{"Adam", func() { new(net.Adam).Step(params, grads[1:], 1) }, "net: Adam.Step: 26 parameters, 25 gradients, means of 26 and 26: want one length"},
		{"Adam of another", func() { (&net.Adam{M: x, V: x, Steps: 1}).Step(params, grads, 1) }, "means of 6 and 6: want one length"},
		{"Adam without means", func() { (&net.Adam{Steps: 1}).Step(params, grads, 1) }, "means of 0 and 0: want one length"},
		{"head", func() { net.LogSoftmax(x[:2], x[:3]) }, "net: LogSoftmax: slices of [2 3] elements: want one length, not 0"},
		{"empty head", func() { net.ArgMax(nil) }, "net: ArgMax: slices of [0 0] elements: want one length, not 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, tc.want) {
					t.Errorf("panic %q, want %q", got, tc.want)
				}
			}()
			tc.do()
		})
	}
}
