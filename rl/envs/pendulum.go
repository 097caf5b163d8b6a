package envs

import (
	"math"

	"github.com/raysys/raysys/rl"
)

type pendulum struct {
	episodes
	theta, speed float64 // radians from upright, not normalized, and radians a second
	obs          [3]float32
}

// Pendulum is gymnasium's Pendulum-v1: a rod of 1 kg and 1 m that a torque between -2 and 2 Nm swings up and holds there; too weak to lift it at once. An
// observation is cosine and sine of the angle from upright, and the speed (rad/s, at most 8). The reward is minus the squared angle, a tenth of the squared
// speed and a thousandth of the squared torque, from 0 to -16.3. An episode begins at any angle and a speed between -1 and 1; each has 200 steps.
//
// gymnasium's takes a torque out of bounds and clips it; this one refuses it, as every rl.Env does.
func Pendulum(seed uint64) rl.Env[[]float32] {
	return &pendulum{episodes: newEpisodes(seed, rl.Spec{
		Name: "Pendulum", Obs: []int{3}, Low: []float32{-2}, High: []float32{2}, MaxSteps: 200, Random: -1227,
	})}
}

func (p *pendulum) Reset() []float32 {
	p.begin()
	p.theta = math.Pi * (2*p.rng.Float64() - 1)
	p.speed = 2*p.rng.Float64() - 1
	return p.look()
}

// Step integrates 0.05 s: the speed first, then the angle by the new speed. Terms of the torque alone are float32 in the reference.
func (p *pendulum) Step(action []float32) rl.Step {
	take(&p.episodes, action)
	const dt, g = 0.05, 10
	u := action[0]
	angle := math.Mod(p.theta+math.Pi, 2*math.Pi)
	if angle < 0 {
		angle += 2 * math.Pi
	}
	angle -= math.Pi
	cost := angle*angle + 0.1*(p.speed*p.speed) + float64(0.001*(u*u))
	p.speed = max(-8, min(8, p.speed+(1.5*g*math.Sin(p.theta)+float64(3*u))*dt))
	p.theta += p.speed * dt
	return p.end(p.look(), float32(-cost), false)
}

func (p *pendulum) look() []float32 {
	sin, cos := math.Sincos(p.theta)
	p.obs = [3]float32{float32(cos), float32(sin), float32(p.speed)}
	return p.obs[:]
}
