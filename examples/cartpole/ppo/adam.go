package ppo

import "math"

// Adam holds the moments of the optimiser of Kingma and Ba (2015) for one
// vector of parameters. Its zero value is ready.
type Adam struct {
	// M and V are the decaying means of the gradient and of its square.
	M, V []float64

	// Steps counts the steps made; it corrects the means' bias towards zero.
	Steps int
}

// The decay rates of the paper. Epsilon is 1e-5, not 1e-8: PPO's gradients
// become tiny once the policy is good, and a smaller one would turn their noise
// into full steps (Huang et al., "The 37 implementation details of PPO", 3).
const (
	adamBeta1   = 0.9
	adamBeta2   = 0.999
	adamEpsilon = 1e-5
)

// Step moves params against grad, both of one length throughout an Adam's life.
func (a *Adam) Step(params, grad []float64, rate float64) {
	if a.M == nil {
		a.M, a.V = make([]float64, len(params)), make([]float64, len(params))
	}
	a.Steps++
	correct1 := 1 - math.Pow(adamBeta1, float64(a.Steps))
	correct2 := 1 - math.Pow(adamBeta2, float64(a.Steps))
	m, v := a.M[:len(grad)], a.V[:len(grad)]
	params = params[:len(grad)]
	for i, g := range grad {
		m[i] = adamBeta1*m[i] + (1-adamBeta1)*g
		v[i] = adamBeta2*v[i] + (1-adamBeta2)*g*g
		params[i] -= rate * (m[i] / correct1) / (math.Sqrt(v[i]/correct2) + adamEpsilon)
	}
}
