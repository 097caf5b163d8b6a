package dqn

import (
	"fmt"
	"math/rand/v2"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// policy takes the action of the highest value, and now and then a random one.
type policy struct {
	*Config
	net     net.MLP
	model   string
	params  []float32
	epsilon float64
	work    net.Workspace
}

func (a *agent) Policy(spec rl.Spec) (rl.Policy, error) {
	m, err := a.layout(&spec)
	if err != nil {
		return nil, err
	}
	return &policy{Config: &a.Config, net: m, model: model(m)}, nil
}

func (p *policy) Load(w rl.Weights) error {
	if w.Model != p.model || len(w.Params) != p.net.Size() {
		return fmt.Errorf("%w: %d weights of %q, and the policy is of %q", rl.ErrModel, len(w.Params), w.Model, p.model)
	}
	p.params, p.epsilon = w.Params, p.epsilonAt(w.Steps)
	return nil
}

// epsilonAt is the share of random actions after so many learner steps. Weights that have learned nothing take one action again and again.
func (c *Config) epsilonAt(steps int) float64 {
	if steps == 0 {
		return 1
	}
	left := 1 - min(1, float64(steps)/float64(c.EpsilonSteps))
	return c.Epsilon + left*(c.FirstEpsilon-c.Epsilon)
}

func (p *policy) Act(obs []float32, rng *rand.Rand, action, _ []float32) {
	if rng != nil && rng.Float64() < p.epsilon {
		action[0] = float32(rng.IntN(p.net.Out()))
		return
	}
	action[0] = float32(net.ArgMax(p.net.Forward(p.params, obs, &p.work)))
}
