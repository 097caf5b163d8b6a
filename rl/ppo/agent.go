package ppo

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// New makes an agent. Its methods return ErrConfig where the Config cannot be meant.
func New(c Config) rl.Agent { return agent{c} }

type agent struct{ Config }

// sequence is how many steps a trajectory has at most. A shorter one has more bootstrapping, and a longer one keeps an actor longer on old weights.
const sequence = 256

// Experience hands each trajectory over once. As many wait as an update takes, so that none is many updates old when it is learned from.
func (a agent) Experience() (rl.Experience, error) {
	c, err := a.complete()
	if err != nil {
		return rl.Experience{}, err
	}
	waiting := max(1, c.Batch/sequence)
	return rl.Experience{
		Adder: rl.Sequence(sequence, sequence),
		Table: replay.Table{Sampler: replay.FIFO, MaxSize: waiting, MaxTimesSampled: 1, Limiter: replay.Queue(waiting)},
		Batch: 1,
		Extra: extras,
		Fresh: max(1, c.Batch/2),
	}, nil
}

func (a agent) Policy(spec rl.Spec) (rl.Policy, error) {
	_, m, err := a.model(spec)
	if err != nil {
		return nil, err
	}
	return &policy{model: m}, nil
}

func (a agent) Learner(_ context.Context, spec rl.Spec, seed uint64) (rl.Learner, error) {
	c, m, err := a.model(spec)
	if err != nil {
		return nil, err
	}
	return newLearner(c, m, seed), nil
}

// model is the two nets, and what the outputs of the policy's mean. The parameters of the policy are those of its net, and then those that stand beside
// it.
type model struct {
	policy, value net.MLP
	head          head
	beside        int // parameters of the head that do not depend on the observation
	action        int // numbers of an action
}

func (a agent) model(spec rl.Spec) (c Config, m model, err error) {
	if c, err = a.complete(); err != nil {
		return c, m, err
	}
	bad := func(format string, args ...any) (Config, model, error) {
		return c, m, fmt.Errorf("%w: environment %s: %s", ErrConfig, spec.Name, fmt.Sprintf(format, args...))
	}
	if spec.Size() < 1 {
		return bad("the shape of observations is %v", spec.Obs)
	}
	out := spec.Actions
	switch {
	case spec.Actions > 0 && len(spec.Low)+len(spec.High) == 0:
		m.head, m.action = &softmax{logProbs: make([]float32, out)}, 1
	case spec.Actions == 0 && len(spec.Low) > 0 && len(spec.Low) == len(spec.High):
		out = len(spec.Low)
		m.head, m.action, m.beside = gaussian{spec.Low, spec.High}, out, out
	default:
		return bad("%d actions, and bounds %v and %v: want actions, or a bound below and above each element", spec.Actions, spec.Low, spec.High)
	}
	m.policy = net.New(net.Tanh, spec.Size(), c.Hidden, c.Hidden, out)
	m.value = net.New(net.Tanh, spec.Size(), c.Hidden, c.Hidden, 1)
	return c, m, nil
}

// String is the Model of learners and weights. The layout of the value net follows from it.
func (m *model) String() string { return fmt.Sprintf("ppo %v %v", m.head, m.policy) }

// size is the number of parameters of the policy.
func (m *model) size() int { return m.policy.Size() + m.beside }

// split is the parameters, or slopes by them, of the policy net and those beside it.
func (m *model) split(params []float32) (inNet, beside []float32) {
	n := m.policy.Size()
	return params[:n], params[n:]
}
