package ppo

import (
	"fmt"
	"math/rand/v2"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// policy acts by weights, one observation at a time.
type policy struct {
	model
	inNet, beside []float32
	w             net.Workspace
}

// Load refuses weights of another learner: they may come from another version of the program.
func (p *policy) Load(w rl.Weights) error {
	if want := p.String(); w.Model != want || len(w.Params) != p.size() {
		return fmt.Errorf("load weights of %q, %d numbers, into %q, %d: %w", w.Model, len(w.Params), want, p.size(), rl.ErrModel)
	}
	p.inNet, p.beside = p.split(w.Params)
	return nil
}

func (p *policy) Act(obs []float32, rng *rand.Rand, action, extra []float32) {
	p.head.act(p.policy.Forward(p.inNet, obs, &p.w), p.beside, rng, action, extra)
}
