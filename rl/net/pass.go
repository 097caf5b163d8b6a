package net

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
)

// Workspace is the memory of Forward and Backward. Its zero value is ready. It is for one goroutine, and grows to the largest batch that it saw.
type Workspace struct {
	layers []layer // of the MLP of the last Forward
	rows   int     // of the last batch
	x      []float32
	acts   [][]float32 // the outputs of each layer
	deltas [][]float32 // the loss by the sums of each hidden layer; of Backward alone
	turned []float32   // the weights of one layer, transposed; of Backward alone
}

// Forward returns the outputs for the rows of x, which has rows of the width In one after the other. They lie in w until its next use.
// It panics where params has not Size elements, or x not a whole number of rows.
func (m MLP) Forward(params, x []float32, w *Workspace) []float32 {
	if len(params) != m.Size() {
		panic(fmt.Sprintf("net: Forward of %v: %d parameters, want %d", m, len(params), m.Size()))
	}
	rows := len(x) / m.In()
	if rows == 0 || rows*m.In() != len(x) {
		panic(fmt.Sprintf("net: Forward of %v: a batch of %d numbers, want a multiple of %d", m, len(x), m.In()))
	}
	if !slices.Equal(w.layers, m.layers) {
		*w = Workspace{layers: m.layers, acts: make([][]float32, len(m.layers)), deltas: make([][]float32, len(m.layers)-1)}
	}
	w.rows, w.x = rows, x
	for i, l := range m.layers {
		w.acts[i] = fit(w.acts[i], rows*l.out)
		y, bias := w.acts[i], params[l.b:l.b+l.out]
		for at := 0; at < len(y); at += l.out {
			copy(y[at:], bias)
		}
		addProduct(blas.NoTrans, matrix(x, l.in), matrix(params[l.w:l.b], l.out), matrix(y, l.out))
		if i < len(m.layers)-1 {
			m.hidden.apply(y)
		}
		x = y
	}
	return x
}

// Backward writes the gradient of the loss by the parameters to grads, over what was there. It is that of the last Forward in w, which had the same
// params; dOut is the loss by each of its outputs. A mean over the batch is the caller's: dOut has the factor. It panics without such a Forward,
// and where a slice has another length than params or the outputs.
func (m MLP) Backward(params []float32, w *Workspace, dOut, grads []float32) {
	switch {
	case !slices.Equal(w.layers, m.layers):
		panic(fmt.Sprintf("net: Backward of %v: no Forward of this net was the last in the workspace", m))
	case len(params) != m.Size() || len(grads) != m.Size():
		panic(fmt.Sprintf("net: Backward of %v: %d parameters and %d gradients, want %d", m, len(params), len(grads), m.Size()))
	case len(dOut) != w.rows*m.Out():
		panic(fmt.Sprintf("net: Backward of %v: the loss by %d outputs, want %d rows of %d", m, len(dOut), w.rows, m.Out()))
	}
	clear(grads)
	delta := dOut
	for i := len(m.layers) - 1; i >= 0; i-- {
		l, in := m.layers[i], w.x
		if i > 0 {
			in = w.acts[i-1]
		}
		addProduct(blas.Trans, matrix(in, l.in), matrix(delta, l.out), matrix(grads[l.w:l.b], l.out))
		bias := grads[l.b : l.b+l.out]
		for at := 0; at < len(delta); at += l.out {
			for j, d := range delta[at : at+l.out] {
				bias[j] += d
			}
		}
		if i == 0 {
			return
		}
		w.turned = fit(w.turned, l.in*l.out)
		transpose(w.turned, params[l.w:l.b], l.in, l.out)
		below := fit(w.deltas[i-1], w.rows*l.in)
		w.deltas[i-1] = below
		clear(below)
		addProduct(blas.NoTrans, matrix(delta, l.out), matrix(w.turned, l.in), matrix(below, l.in))
		m.hidden.slope(below, in)
		delta = below
	}
}

// fit returns a slice of n elements: s, where it has room.
func fit(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
