package env

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// The constants of CartPole-v1, in SI units. Barto, Sutton and Anderson,
// "Neuronlike adaptive elements that can solve difficult learning control
// problems", IEEE Trans. SMC 13 (1983), appendix; 500 steps and 475 are the
// limits the v1 registration added.
const (
	gravity        = 9.8
	massCart       = 1.0
	massPole       = 0.1
	massTotal      = massCart + massPole
	halfLength     = 0.5 // the centre of mass of the pole
	poleMoment     = massPole * halfLength
	force          = 10.0
	tau            = 0.02 // seconds per step
	maxX           = 2.4
	maxTheta       = 12 * 2 * math.Pi / 360
	startSpread    = 0.05
	cartPoleSteps  = 500
	cartPoleSolved = 475
)

// CartPole is the reference CartPole-v1: a pole hinged on a cart that is pushed
// left (0) or right (1), reward 1 for every step including the one in which the
// pole falls. An observation is x (m), its speed (m/s), theta (rad from upright)
// and its speed (rad/s).
type CartPole struct {
	x, xDot, theta, thetaDot float64

	// steps counts the episode so far; over is true before the first Reset too,
	// so that both mistakes meet the same check.
	steps int
	over  bool
}

var _ Env = (*CartPole)(nil)

// NewCartPole returns a cart-pole that waits for its first Reset.
func NewCartPole() *CartPole { return &CartPole{over: true} }

// Spec returns 4 observations, 2 actions, 500 steps, solved at 475.
func (*CartPole) Spec() Spec {
	return Spec{Obs: 4, Actions: 2, MaxSteps: cartPoleSteps, Solved: cartPoleSolved}
}

// Reset draws the four values of the start uniformly from [-0.05, 0.05).
func (c *CartPole) Reset(rng *rand.Rand, obs []float64) {
	var start [4]float64
	for i := range start {
		start[i] = startSpread * (2*rng.Float64() - 1)
	}
	c.ResetTo(start, obs)
}

// ResetTo starts an episode from a given state, in the order of an observation.
func (c *CartPole) ResetTo(state [4]float64, obs []float64) {
	c.x, c.xDot, c.theta, c.thetaDot = state[0], state[1], state[2], state[3]
	c.steps, c.over = 0, false
	c.observe(obs)
}

// Step integrates one tau by the explicit Euler rule, positions before speeds:
// the order is part of the reference, another one is another task.
func (c *CartPole) Step(action int, obs []float64) (reward float64, done, truncated bool) {
	if c.over {
		panic("env: step of a cart-pole whose episode is over")
	}
	push := force
	switch action {
	case 0:
		push = -force
	case 1:
	default:
		panic(fmt.Sprintf("env: action %d of a cart-pole, which has 0 and 1", action))
	}

	sin, cos := math.Sincos(c.theta)
	// The squares are bracketed as in the reference: the system amplifies a
	// rounding by e^4 per simulated second.
	temp := (push + poleMoment*(c.thetaDot*c.thetaDot)*sin) / massTotal
	thetaAcc := (gravity*sin - cos*temp) / (halfLength * (4.0/3.0 - massPole*(cos*cos)/massTotal))
	xAcc := temp - poleMoment*thetaAcc*cos/massTotal

	c.x += tau * c.xDot
	c.xDot += tau * xAcc
	c.theta += tau * c.thetaDot
	c.thetaDot += tau * thetaAcc
	c.steps++

	done = c.x < -maxX || c.x > maxX || c.theta < -maxTheta || c.theta > maxTheta
	truncated = !done && c.steps >= cartPoleSteps
	c.over = done || truncated
	c.observe(obs)
	return 1, done, truncated
}

func (c *CartPole) observe(obs []float64) {
	// The one check stands before the writes, so that a short slice fails whole.
	_ = obs[3]
	obs[0], obs[1], obs[2], obs[3] = c.x, c.xDot, c.theta, c.thetaDot
}
