package impala

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// New makes an agent. Its methods return ErrConfig where the Config cannot be meant.
func New(c Config) rl.Agent { return agent{c} }

type agent struct{ Config }

// flying is how many updates' steps all actors together may have played that the table has not been offered: some hundred actors play a few steps a turn then.
// What that makes old V-trace corrects.
const flying = 8

// Experience hands each trajectory over once, in the order in which they come.
func (a agent) Experience() (rl.Experience, error) {
	c, err := a.complete()
	if err != nil {
		return rl.Experience{}, err
	}
	waiting := max(1, c.Batch/c.Unroll)
	return rl.Experience{
		Adder: rl.Sequence(c.Unroll, c.Unroll),
		Table: replay.Table{Sampler: replay.FIFO, MaxSize: waiting, MaxTimesSampled: 1, Limiter: replay.Queue(waiting)},
		Batch: 1,
		Extra: 1, // the logarithm of the probability of the action
		Fresh: flying * c.Batch,
	}, nil
}

func (a agent) Policy(spec rl.Spec) (rl.Policy, error) {
	_, m, err := a.model(spec)
	if err != nil {
		return nil, err
	}
	return &policy{model: m, logProbs: make([]float32, spec.Actions)}, nil
}

func (a agent) Learner(_ context.Context, spec rl.Spec, seed uint64) (rl.Learner, error) {
	c, m, err := a.model(spec)
	if err != nil {
		return nil, err
	}
	return newLearner(c, m, seed), nil
}

// model is the two nets: the policy's outputs are logits.
type model struct{ policy, value net.MLP }

func (a agent) model(spec rl.Spec) (c Config, m model, err error) {
	if c, err = a.complete(); err != nil {
		return c, m, err
	}
	switch {
	case spec.Size() < 1:
		return c, m, fmt.Errorf("%w: environment %s: the shape of observations is %v", ErrConfig, spec.Name, spec.Obs)
	case spec.Actions < 1:
		return c, m, fmt.Errorf("%w: the actions of %s are vectors, and impala chooses among numbered ones: use rl/ppo", ErrConfig, spec.Name)
	}
	return c, model{net.New(net.Tanh, spec.Size(), c.Hidden, c.Hidden, spec.Actions), net.New(net.Tanh, spec.Size(), c.Hidden, c.Hidden, 1)}, nil
}

// String is the Model of learners and weights. The layout of the value net follows from it.
func (m *model) String() string { return fmt.Sprintf("impala %v", m.policy) }

// policy acts by weights, one observation at a time.
type policy struct {
	model
	params, logProbs []float32
	w                net.Workspace
}

// Load refuses weights of another learner: they may come from another version of the program.
func (p *policy) Load(w rl.Weights) error {
	if want := p.String(); w.Model != want || len(w.Params) != p.policy.Size() {
		return fmt.Errorf("load weights of %q, %d numbers, into %q, %d: %w", w.Model, len(w.Params), want, p.policy.Size(), rl.ErrModel)
	}
	p.params = w.Params
	return nil
}

func (p *policy) Act(obs []float32, rng *rand.Rand, action, extra []float32) {
	out := p.policy.Forward(p.params, obs, &p.w)
	if rng == nil {
		action[0] = float32(net.ArgMax(out))
		return
	}
	net.LogSoftmax(p.logProbs, out)
	a := len(out) - 1 // the probabilities add up to 1 only up to rounding
	u := rng.Float64()
	for i, lp := range p.logProbs[:a] {
		if u -= math.Exp(float64(lp)); u < 0 {
			a = i
			break
		}
	}
	action[0], extra[0] = float32(a), p.logProbs[a]
}
