package net

import (
	"fmt"
	"math"
)

// Adam is the optimizer of Kingma and Ba (2015) for one vector of parameters. Its zero value is ready, and all of it can be saved.
type Adam struct {
	// Beta1, Beta2 and Epsilon are the decay rates of the means, and what is added to the root; 0: the paper's 0.9, 0.999 and 1e-8. PPO takes an
	// Epsilon of 1e-5: the gradients of a good policy are tiny, and a smaller one makes full steps of their noise.
	Beta1, Beta2, Epsilon float64

	// M and V are the decaying means of the gradient and of its square. Step makes them.
	M, V []float32

	// Steps counts the steps made; it corrects the bias of the means towards 0.
	Steps int
}

// Step moves params against grads. It panics unless both have one length, that of M and V.
func (a *Adam) Step(params, grads []float32, rate float64) {
	if a.M == nil && a.V == nil && a.Steps == 0 {
		a.M, a.V = make([]float32, len(params)), make([]float32, len(params))
	}
	n := len(params)
	if len(grads) != n || len(a.M) != n || len(a.V) != n {
		panic(fmt.Sprintf("net: Adam.Step: %d parameters, %d gradients, means of %d and %d: want one length", n, len(grads), len(a.M), len(a.V)))
	}
	beta1, beta2, epsilon := or(a.Beta1, 0.9), or(a.Beta2, 0.999), float32(or(a.Epsilon, 1e-8))
	a.Steps++
	step := float32(rate / (1 - math.Pow(beta1, float64(a.Steps))))
	unbias := float32(1 / math.Sqrt(1-math.Pow(beta2, float64(a.Steps))))
	keepM, keepV, addM, addV := float32(beta1), float32(beta2), float32(1-beta1), float32(1-beta2)
	m, v := a.M[:n], a.V[:n]
	for i, g := range grads {
		m[i] = keepM*m[i] + addM*g
		v[i] = keepV*v[i] + addV*g*g
		root := float32(math.Sqrt(float64(v[i])))
		params[i] -= step * m[i] / (root*unbias + epsilon)
	}
}

func or(x, otherwise float64) float64 {
	if x == 0 {
		return otherwise
	}
	return x
}

// ClipNorm scales grads so that their Euclidean norm is at most the limit, and returns the norm that they had. A norm that is infinite or no number
// is returned with grads as they are: a step along them would be the end of the parameters.
func ClipNorm(grads []float32, limit float64) float64 {
	var sum float64
	for _, g := range grads {
		sum += float64(g) * float64(g)
	}
	norm := math.Sqrt(sum)
	if norm > limit && !math.IsInf(norm, 0) {
		scale := float32(limit / norm)
		for i := range grads {
			grads[i] *= scale
		}
	}
	return norm
}
