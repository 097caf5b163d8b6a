package main

import (
	"math"
	"math/rand/v2"
)

// problem is a linear regression whose rows are shared out among workers. Each worker makes its own rows from the seed,
// so no data travels.
type problem struct {
	Seed                           uint64
	Workers, Rows, Features, Steps int
	Rate                           float64 // of allReduce: rate unless set
}

// rows are a worker's part of the data: x has a 1 and then Features-1 normal numbers, y is linear in x but for noise.
func (p problem) rows(worker int) (xs [][]float64, ys []float64) {
	truth := rand.New(rand.NewPCG(p.Seed, 0))
	slope := make([]float64, p.Features)
	for i := range slope {
		slope[i] = truth.NormFloat64()
	}
	r := rand.New(rand.NewPCG(p.Seed, uint64(worker)+1))
	for range p.Rows {
		x := make([]float64, p.Features)
		y := 0.1 * r.NormFloat64()
		for i := range x {
			if x[i] = r.NormFloat64(); i == 0 {
				x[i] = 1
			}
			y += slope[i] * x[i]
		}
		xs, ys = append(xs, x), append(ys, y)
	}
	return xs, ys
}

// gradient of half the mean squared error over the rows.
func gradient(xs [][]float64, ys, w []float64) []float64 {
	g := make([]float64, len(w))
	for i, x := range xs {
		e := dot(x, w) - ys[i]
		for j := range g {
			g[j] += e * x[j] / float64(len(xs))
		}
	}
	return g
}

func dot(a, b []float64) (s float64) {
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

// loss is half the mean squared error over all workers' rows.
func (p problem) loss(w []float64) (l float64) {
	for worker := range p.Workers {
		xs, ys := p.rows(worker)
		for i, x := range xs {
			e := dot(x, w) - ys[i]
			l += e * e / 2
		}
	}
	return l / float64(p.Workers*p.Rows)
}

// best solves the normal equations, X'X w = X'y, by elimination.
func (p problem) best() []float64 {
	n := p.Features
	m := make([][]float64, n) // X'X | X'y
	for i := range m {
		m[i] = make([]float64, n+1)
	}
	for worker := range p.Workers {
		xs, ys := p.rows(worker)
		for k, x := range xs {
			for i := range n {
				for j := range n {
					m[i][j] += x[i] * x[j]
				}
				m[i][n] += x[i] * ys[k]
			}
		}
	}
	for i := range n { // X'X is positive definite, so no pivot is zero
		for r := range n {
			if f := m[r][i] / m[i][i]; r != i {
				for c := i; c <= n; c++ {
					m[r][c] -= f * m[i][c]
				}
			}
		}
	}
	w := make([]float64, n)
	for i := range w {
		w[i] = m[i][n] / m[i][i]
	}
	return w
}

func distance(a, b []float64) (d float64) {
	for i, x := range a {
		d = math.Max(d, math.Abs(x-b[i]))
	}
	return d
}
