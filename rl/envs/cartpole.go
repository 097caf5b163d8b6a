package envs

import (
	"math"

	"github.com/raysys/raysys/rl"
)

// The constants of CartPole-v1, in SI units. Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning control
// problems", IEEE Trans. SMC 13 (1983), appendix.
const (
	gravity    = 9.8
	massCart   = 1.0
	massPole   = 0.1
	massTotal  = massCart + massPole
	halfLength = 0.5 // the center of mass of the pole
	poleMoment = massPole * halfLength
	force      = 10.0
	tau        = 0.02 // seconds a step
	maxX       = 2.4
	maxTheta   = 12 * 2 * math.Pi / 360
)

type cartPole struct {
	episodes
	state [4]float64
	obs   [4]float32
}

// CartPole is gymnasium's CartPole-v1: a pole hinged on a cart that is pushed left (0) or right (1). An observation is the position of the cart (m), its
// speed (m/s), the angle of the pole (rad from upright) and its speed (rad/s). Each step has reward 1, also that in which the pole falls beyond 12 degrees
// or the cart leaves 2.4 m. An episode begins with each number between -0.05 and 0.05.
func CartPole(seed uint64) rl.Env[int] {
	return &cartPole{episodes: newEpisodes(seed, rl.Spec{
		Name: "CartPole", Obs: []int{4}, Actions: 2, MaxSteps: 500, Threshold: 475, Random: 22.3,
	})}
}

func (c *cartPole) Reset() []float32 {
	c.begin()
	for i := range c.state {
		c.state[i] = 0.05 * (2*c.rng.Float64() - 1)
	}
	return c.look()
}

// Step integrates one tau by the explicit Euler rule, positions before speeds: another order is another task.
func (c *cartPole) Step(action int) rl.Step {
	take(&c.episodes, action)
	push := force
	if action == 0 {
		push = -force
	}
	x, xDot, theta, thetaDot := c.state[0], c.state[1], c.state[2], c.state[3]
	sin, cos := math.Sincos(theta)
	// The squares have the brackets of the reference: the dynamics amplify a rounding by e^4 a second.
	temp := (push + poleMoment*(thetaDot*thetaDot)*sin) / massTotal
	thetaAcc := (gravity*sin - cos*temp) / (halfLength * (4.0/3.0 - massPole*(cos*cos)/massTotal))
	xAcc := temp - poleMoment*thetaAcc*cos/massTotal
	c.state = [4]float64{x + tau*xDot, xDot + tau*xAcc, theta + tau*thetaDot, thetaDot + tau*thetaAcc}
	return c.end(c.look(), 1, math.Abs(c.state[0]) > maxX || math.Abs(c.state[2]) > maxTheta)
}

func (c *cartPole) look() []float32 {
	for i, x := range c.state {
		c.obs[i] = float32(x)
	}
	return c.obs[:]
}
