package ppo

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// net is the layout of a perceptron with tanh hidden layers and a linear output
// in one flat vector of parameters. Flat, because the optimiser, the gradient
// norm and the wire then see a slice and need no walk over layers.
type net []layer

// layer computes y = x W + b; weights and biases lie at w and b, and W has a row
// per input, so that both the batch and the single observation are sums over
// contiguous rows.
type layer struct{ in, out, w, b int }

// newNet lays out layers between the given widths.
func newNet(widths ...int) net {
	var n net
	at := 0
	for i := range len(widths) - 1 {
		l := layer{in: widths[i], out: widths[i+1], w: at}
		l.b = l.w + l.in*l.out
		at = l.b + l.out
		n = append(n, l)
	}
	return n
}

// size is the number of parameters.
func (n net) size() int {
	last := n[len(n)-1]
	return last.b + last.out
}

func (l layer) weights(params []float64) blas64.General {
	return blas64.General{Rows: l.in, Cols: l.out, Stride: l.out, Data: params[l.w:l.b]}
}

func (l layer) bias(params []float64) []float64 { return params[l.b : l.b+l.out] }

// init draws orthogonal weights and leaves the biases zero. Gain sqrt(2) in the
// hidden layers keeps the signal's variance through tanh; the gain of the output
// is the caller's: near zero it makes a policy start undecided.
func (n net) init(gain float64, rng *rand.Rand) []float64 {
	params := make([]float64, n.size())
	for i, l := range n {
		g := math.Sqrt2
		if i == len(n)-1 {
			g = gain
		}
		orthogonal(l.weights(params), g, rng)
	}
	return params
}

// orthogonal fills w with a matrix whose shorter side is orthonormal, times
// gain: the Q of a Gaussian matrix. Multiplying by the signs of R's diagonal
// makes it uniform over such matrices (Mezzadri 2007).
func orthogonal(w blas64.General, gain float64, rng *rand.Rand) {
	long, short := max(w.Rows, w.Cols), min(w.Rows, w.Cols)
	gauss := mat.NewDense(long, short, nil)
	for i := range long {
		for j := range short {
			gauss.Set(i, j, rng.NormFloat64())
		}
	}
	var qr mat.QR
	var q, r mat.Dense
	qr.Factorize(gauss)
	qr.QTo(&q)
	qr.RTo(&r)
	for i := range w.Rows {
		for j := range w.Cols {
			row, col := i, j
			if w.Rows < w.Cols {
				row, col = j, i
			}
			w.Data[i*w.Stride+j] = gain * math.Copysign(q.At(row, col), q.At(row, col)*r.At(col, col))
		}
	}
}

// pass holds what one forward and backward pass over up to rows rows needs.
type pass struct {
	acts   []blas64.General // the output of each layer
	deltas []blas64.General // the loss by the input of each layer's nonlinearity
}

func (n net) newPass(rows int) *pass {
	p := new(pass)
	for _, l := range n {
		p.acts = append(p.acts, newGeneral(rows, l.out))
		p.deltas = append(p.deltas, newGeneral(rows, l.out))
	}
	return p
}

func newGeneral(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

// head is the first rows rows of g.
func head(g blas64.General, rows int) blas64.General {
	g.Rows, g.Data = rows, g.Data[:rows*g.Stride]
	return g
}

// forward returns the outputs for the rows of x. They lie in p until the next
// pass.
func (n net) forward(params []float64, x blas64.General, p *pass) blas64.General {
	for i, l := range n {
		y := head(p.acts[i], x.Rows)
		bias := l.bias(params)
		for at := 0; at < len(y.Data); at += l.out {
			copy(y.Data[at:], bias)
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, l.weights(params), 1, y)
		if i < len(n)-1 {
			tanh(y.Data)
		}
		x = y
	}
	return x
}

// output is where the caller of backward writes the loss by the outputs.
func (n net) output(p *pass, rows int) blas64.General { return head(p.deltas[len(n)-1], rows) }

// backward writes the gradient of the loss to grad, given the last forward pass
// over x and the loss by its outputs in output.
func (n net) backward(params []float64, x blas64.General, p *pass, grad []float64) {
	for i := len(n) - 1; i >= 0; i-- {
		l, delta := n[i], head(p.deltas[i], x.Rows)
		in := x
		if i > 0 {
			in = head(p.acts[i-1], x.Rows)
		}
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, in, delta, 0, l.weights(grad))
		bias := l.bias(grad)
		clear(bias)
		for at := 0; at < len(delta.Data); at += l.out {
			for j, d := range delta.Data[at : at+l.out] {
				bias[j] += d
			}
		}
		if i == 0 {
			return
		}
		below := head(p.deltas[i-1], x.Rows)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, delta, l.weights(params), 0, below)
		for j, y := range in.Data {
			below.Data[j] *= 1 - y*y
		}
	}
}

func tanh(x []float64) {
	for i, v := range x {
		x[i] = math.Tanh(v)
	}
}
