package net_test

import (
	"math"
	"math/rand/v2"

	"github.com/raysys/raysys/rl/net"
)

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func gaussian(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// reference computes the outputs as the definition says, in float64: per layer a row of weights for each input, then the biases.
func reference(hidden net.Activation, widths []int, params, x []float64) []float64 {
	rows := len(x) / widths[0]
	for l := range len(widths) - 1 {
		in, out := widths[l], widths[l+1]
		weights, bias := params[:in*out], params[in*out:in*out+out]
		params = params[in*out+out:]
		y := make([]float64, rows*out)
		for r := range rows {
			for j := range out {
				sum := bias[j]
				for i := range in {
					sum += x[r*in+i] * weights[i*out+j]
				}
				switch {
				case l == len(widths)-2:
				case hidden == net.Tanh:
					sum = math.Tanh(sum)
				default:
					sum = max(sum, 0)
				}
				y[r*out+j] = sum
			}
		}
		x = y
	}
	return x
}
