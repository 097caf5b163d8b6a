package es

import (
	"fmt"
	"math/rand/v2"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// model is the layout of a policy: outputs are scores of actions, or their elements between the bounds.
type model struct {
	net.MLP
	low, high []float32
}

func modelOf(spec rl.Spec, hidden int) (model, error) {
	outputs := spec.Actions
	if outputs == 0 {
		outputs = len(spec.Low)
	}
	if spec.Size() < 1 || outputs < 1 {
		return model{}, fmt.Errorf("%w: environment %s: observations have the shape %v, and there are %d actions, or elements of one", ErrConfig, spec.Name, spec.Obs, outputs)
	}
	if hidden < 0 {
		return model{net.New(net.Tanh, spec.Size(), outputs), spec.Low, spec.High}, nil
	}
	return model{net.New(net.Tanh, spec.Size(), hidden, hidden, outputs), spec.Low, spec.High}, nil
}

// String is the Model of weights.
func (m *model) String() string { return "es " + m.MLP.String() }

// policy acts by weights. The noise is in them: it takes the best action always.
type policy struct {
	model
	params []float32
	w      net.Workspace
}

func (p *policy) Load(w rl.Weights) error {
	if want := p.String(); w.Model != want || len(w.Params) != p.Size() {
		return fmt.Errorf("load weights of %q, %d numbers, into %q, %d: %w", w.Model, len(w.Params), want, p.Size(), rl.ErrModel)
	}
	p.params = w.Params
	return nil
}

func (p *policy) Act(obs []float32, _ *rand.Rand, action, _ []float32) {
	out := p.Forward(p.params, obs, &p.w)
	if len(p.low) == 0 {
		action[0] = float32(net.ArgMax(out))
		return
	}
	for i, u := range out {
		low, high := p.low[i], p.high[i]
		action[i] = max(low, min(high, low+(high-low)*(u+1)/2))
	}
}
