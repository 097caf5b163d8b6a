package net_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/raysys/raysys/rl/net"
)

// TestGradients compares outputs with the definition, and gradients with its central differences, all in float64. The wide net has more than one part in
// each product.
func TestGradients(t *testing.T) {
	for _, tc := range []struct {
		hidden net.Activation
		widths []int
		rows   int
	}{
		{net.Tanh, []int{3, 2}, 5},
		{net.Tanh, []int{3, 8, 5, 4}, 1},
		{net.Tanh, []int{4, 16, 16, 2}, 24},
		{net.ReLU, []int{3, 8, 5, 4}, 1},
		{net.ReLU, []int{4, 16, 16, 2}, 24},
		{net.Tanh, []int{70, 200, 66, 3}, 70},
		{net.ReLU, []int{70, 200, 66, 3}, 70},
	} {
		m := net.New(tc.hidden, tc.widths...)
		t.Run(fmt.Sprintf("%v of %d rows", m, tc.rows), func(t *testing.T) {
			rng := source(7)
			params, x := m.Init(rng, 1), gaussian(rng, tc.rows*m.In())
			for i := range params {
				params[i] += 0.1 * float32(rng.NormFloat64()) // so that biases take part
			}
			dOut := gaussian(rng, tc.rows*m.Out())

			var w net.Workspace
			out := m.Forward(params, x, &w)
			for i, want := range reference(tc.hidden, tc.widths, wide(params), wide(x)) {
				if math.Abs(float64(out[i])-want) > 1e-5 {
					t.Fatalf("output %d is %v, want %v", i, out[i], want)
				}
			}
			got := make([]float32, m.Size())
			for i := range got {
				got[i] = float32(math.NaN()) // Backward writes over what was there
			}
			m.Backward(params, &w, dOut, got)

			p, wx := wide(params), wide(x)
			loss := func() (sum float64) {
				for i, y := range reference(tc.hidden, tc.widths, p, wx) {
					sum += float64(dOut[i]) * y
				}
				return sum
			}
			const h = 1e-6
			for i := 0; i < len(p); i += 1 + len(p)/40 {
				was := p[i]
				p[i] = was + h
				above := loss()
				p[i] = was - h
				want := (above - loss()) / (2 * h)
				p[i] = was
				if d := math.Abs(float64(got[i]) - want); !(d <= 1e-5*(1+math.Abs(want))) {
					t.Fatalf("by parameter %d: %v, finite differences %v", i, got[i], want)
				}
			}
		})
	}
}

// TestTanh: a net of weights 1 and biases 0 is tanh. The hidden layer keeps its range, its sign and what is no number.
func TestTanh(t *testing.T) {
	m := net.New(net.Tanh, 1, 1, 1)
	x := []float32{0, 1e-30, -1e-30, 8.999999, 9.000001, 1e30, float32(math.Inf(1)), float32(math.Inf(-1))}
	for i := -100_000; i <= 100_000; i++ {
		x = append(x, float32(i)/10_000)
	}
	var w net.Workspace
	for i, y := range m.Forward([]float32{1, 0, 1, 0}, x, &w) {
		want := math.Tanh(float64(x[i]))
		if !(math.Abs(float64(y)-want) <= 4e-7*math.Abs(want)) || y > 1 || y < -1 {
			t.Fatalf("tanh(%v) is %v, want %v", x[i], y, want)
		}
	}
	if y := m.Forward([]float32{1, 0, 1, 0}, []float32{float32(math.NaN())}, &w); y[0] == y[0] {
		t.Errorf("tanh of what is no number is %v", y)
	}
}

// TestRowsAlone: a row has the same bits alone as in a batch, whatever the batch, so that the ratio of PPO's first epoch is 1.
func TestRowsAlone(t *testing.T) {
	m := net.New(net.Tanh, 4, 64, 200, 2)
	params, x := m.Init(source(1), 1), gaussian(source(2), 150*4)
	var batch, alone net.Workspace
	out := m.Forward(params, x, &batch)
	for r := range 150 {
		if got, want := m.Forward(params, x[4*r:4*r+4], &alone), out[2*r:2*r+2]; !slices.Equal(got, want) {
			t.Fatalf("row %d alone gives %v, in the batch %v", r, got, want)
		}
	}
}

// learn takes steps of regression, with all slices off floats behind the beginning of their memory.
func learn(off int) []float32 {
	m := net.New(net.Tanh, 5, 70, 66, 3)
	place := func(x []float32) []float32 { return append(make([]float32, off, off+len(x)), x...)[off:] }
	params, grads := place(m.Init(source(1), 1)), place(make([]float32, m.Size()))
	x, y := place(gaussian(source(2), 256*5)), gaussian(source(3), 256*3)
	dOut := place(make([]float32, len(y)))
	var w net.Workspace
	var a net.Adam
	for range 10 {
		for i, v := range m.Forward(params, x, &w) {
			_, dOut[i] = net.Huber(v-y[i], 1)
		}
		m.Backward(params, &w, dOut, grads)
		net.ClipNorm(grads, 0.5)
		a.Step(params, grads, 0.01)
	}
	return params
}

// TestBitForBit: neither GOMAXPROCS nor where slices lie in memory changes a bit.
func TestBitForBit(t *testing.T) {
	want := learn(0)
	for off := 1; off < 4; off++ {
		if !slices.Equal(learn(off), want) {
			t.Errorf("slices that begin %d floats later learn other parameters", off)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, procs := range []int{1, 7} {
		runtime.GOMAXPROCS(procs)
		if !slices.Equal(learn(0), want) {
			t.Errorf("GOMAXPROCS of %d learns other parameters", procs)
		}
	}
}

// TestWorkspaceServesAnother: a workspace follows the size of the batch and the net that use it.
func TestWorkspaceServesAnother(t *testing.T) {
	var w net.Workspace
	for _, m := range []net.MLP{net.New(net.Tanh, 4, 8, 2), net.New(net.ReLU, 4, 9, 9, 1), net.New(net.Tanh, 4, 3)} {
		params := m.Init(source(1), 1)
		for _, rows := range []int{3, 90, 1} {
			var fresh net.Workspace
			x, dOut := gaussian(source(2), rows*m.In()), gaussian(source(3), rows*m.Out())
			got, want := make([]float32, m.Size()), make([]float32, m.Size())
			out := slices.Clone(m.Forward(params, x, &w))
			m.Backward(params, &w, dOut, got)
			if !slices.Equal(out, m.Forward(params, x, &fresh)) {
				t.Errorf("%v of %d rows: outputs differ from those of a new workspace", m, rows)
			}
			m.Backward(params, &fresh, dOut, want)
			if !slices.Equal(got, want) {
				t.Errorf("%v of %d rows: gradients differ from those of a new workspace", m, rows)
			}
		}
	}
}

// TestNoAllocations: 300 rows and 200 outputs are past where Sgemm would start goroutines.
func TestNoAllocations(t *testing.T) {
	m := net.New(net.ReLU, 4, 64, 200, 2)
	params, grads := m.Init(source(1), 1), make([]float32, m.Size())
	x, dOut := gaussian(source(2), 300*4), gaussian(source(3), 300*2)
	var (
		w, one net.Workspace
		a      net.Adam
		row    = make([]float32, 2)
	)
	for _, tc := range []struct {
		name string
		do   func()
	}{
		{"a step of learning", func() {
			m.Forward(params, x, &w)
			m.Backward(params, &w, dOut, grads)
			net.ClipNorm(grads, 0.5)
			a.Step(params, grads, 1e-3)
		}},
		{"a smaller batch", func() {
			m.Forward(params, x[:40], &w)
			m.Backward(params, &w, dOut[:20], grads)
		}},
		{"an action", func() {
			net.LogSoftmax(row, m.Forward(params, x[:4], &one))
			net.Softmax(row, row)
			net.ArgMax(row)
			net.GaussianLogDensity(row, dOut[:2], dOut[2:4])
		}},
	} {
		if n := testing.AllocsPerRun(10, tc.do); n != 0 {
			t.Errorf("%s allocates %v times", tc.name, n)
		}
	}
}
