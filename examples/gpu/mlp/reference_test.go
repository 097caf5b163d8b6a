package mlp

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// reference trains the same by gonum in double precision, and returns the loss before each step.
func reference(t *testing.T, s Spec, steps int) (losses []float64) {
	t.Helper()
	wide := func(x []float32) []float64 {
		y := make([]float64, len(x))
		for i := range x {
			y[i] = float64(x[i])
		}
		return y
	}
	x32, y32 := s.Data()
	inputs, labels, start := wide(x32), wide(y32), s.Start()
	w, m, v, g := wide(start.Weights), wide(start.First), wide(start.Second), make([]float64, len(start.Weights))
	in := s.Sizes[0]
	for step := range steps {
		at := step % s.Batches * s.Batch
		outputs := []*mat.Dense{mat.NewDense(s.Batch, in, inputs[at*in:(at+s.Batch)*in])}
		layers := s.layers()
		for i, l := range layers {
			z := mat.NewDense(s.Batch, l.out, nil)
			z.Mul(outputs[i], mat.NewDense(l.in, l.out, w[l.at:l.bias()]))
			z.Apply(func(_, j int, x float64) float64 {
				if x += w[l.bias()+j]; i < len(layers)-1 {
					x = math.Max(x, 0)
				}
				return x
			}, z)
			outputs = append(outputs, z)
		}
		scores := outputs[len(outputs)-1]
		d, loss := mat.NewDense(s.Batch, layers[len(layers)-1].out, nil), 0.0
		for i := range s.Batch {
			row, sum := mat.Row(nil, i, scores), 0.0
			for _, x := range row {
				sum += math.Exp(x)
			}
			for j, x := range row {
				p := math.Exp(x) / sum
				if j == int(labels[at+i]) {
					loss -= math.Log(p) / float64(s.Batch)
					p--
				}
				d.Set(i, j, p/float64(s.Batch))
			}
		}
		losses = append(losses, loss)
		for i := len(layers) - 1; i >= 0; i-- {
			l := layers[i]
			mat.NewDense(l.in, l.out, g[l.at:l.bias()]).Mul(outputs[i].T(), d)
			for j := range l.out {
				g[l.bias()+j] = mat.Sum(d.ColView(j))
			}
			if i > 0 {
				back := mat.NewDense(s.Batch, l.in, nil)
				back.Mul(d, mat.NewDense(l.in, l.out, w[l.at:l.bias()]).T())
				back.Apply(func(r, c int, x float64) float64 {
					if outputs[i].At(r, c) > 0 {
						return x
					}
					return 0
				}, back)
				d = back
			}
		}
		for i := range w {
			m[i] = 0.9*m[i] + 0.1*g[i]
			v[i] = 0.999*v[i] + 0.001*g[i]*g[i]
			n := float64(step + 1)
			w[i] -= s.Rate * m[i] / (1 - math.Pow(0.9, n)) / (math.Sqrt(v[i]/(1-math.Pow(0.999, n))) + 1e-8)
		}
	}
	return losses
}
