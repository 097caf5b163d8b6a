package process

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys/grains"
)

// Vector is N environments in one child, stepped together. The zero Vector has none: Start it in OnActivate of a grain in whose struct
// it is, or use DefineVector. Only turns of the grain use it.
type Vector struct {
	child Child
	like  Tensor // an observation: its type and shape
	reset bool   // the environments have been reset
	seed  int64
	step  int
}

// Steps is what N environments have returned. An environment whose episode has ended is reset by the next step, which ignores its
// action and returns the first observation and a reward of 0: gymnasium's AutoresetMode.NEXT_STEP.
type Steps struct {
	Observations Tensor // N of them: float32, or uint8 where the environment has that
	Rewards      []float32
	Terminated   []bool // the episode has ended
	Truncated    []bool // the episode was cut off, for example by a limit of its length
}

type (
	resetArgs struct {
		Seed int64 `json:"seed"`
	}
	stepArgs struct {
		Actions Tensor `json:"actions"`
	}
	stepped struct {
		Observations Tensor `json:"observations"`
		Rewards      Tensor `json:"rewards"`
		Terminated   Tensor `json:"terminated"`
		Truncated    Tensor `json:"truncated"`
	}
)

// Start starts the child with cfg.Envs environments, in the place of one that v has. Reset comes next.
func (v *Vector) Start(ctx context.Context, cfg Config) error {
	if cfg.Envs <= 0 {
		return fmt.Errorf("start a child process: %w", errEnvs)
	}
	v.reset = false
	return v.child.Start(ctx, cfg)
}

var errEnvs = errors.New("a Vector needs Envs of 1 or more")

// OnDeactivate implements grains.Deactivator: it kills the child, its process group and its descendants.
func (v *Vector) OnDeactivate(ctx context.Context) error { return v.child.OnDeactivate(ctx) }

// Reset begins new episodes in all environments and returns the first observations. Environment i gets seed+i, so that the same seed
// and the same actions give the same steps, also in a child that was started anew.
func (v *Vector) Reset(ctx context.Context, seed int64) (Tensor, error) {
	v.reset, v.seed, v.step = false, seed, 0
	r, err := Call[resetArgs, stepped](ctx, &v.child, "reset", resetArgs{seed})
	if err != nil {
		return Tensor{}, v.at(err)
	}
	if v.like.IsZero() && len(r.Observations.Shape) > 0 {
		v.like = Tensor{DType: r.Observations.DType, Shape: r.Observations.Shape[1:]}
	}
	if err := v.check(r.Observations); err != nil {
		return Tensor{}, err
	}
	v.reset = true
	return r.Observations, nil
}

// Step makes a step in all environments: actions has one for each of them, int64 where they are numbered, or a row of float32. It fails
// with ErrReset where Reset has to come first, with *EnvError when an environment fails, and as Call does.
func (v *Vector) Step(ctx context.Context, actions Tensor) (s Steps, err error) {
	n := v.envs()
	switch {
	case !v.reset || v.child.run == nil:
		return s, fmt.Errorf("%s: %w", nameOf(ctx), ErrReset)
	case len(actions.Shape) == 0 || actions.Shape[0] != n:
		return s, fmt.Errorf("%s: %w: actions %v for %d environments", nameOf(ctx), ErrTensor, actions, n)
	case actions.valid() != nil:
		return s, fmt.Errorf("%s: actions: %w", nameOf(ctx), actions.valid())
	}
	v.step++
	r, err := Call[stepArgs, stepped](ctx, &v.child, "step", stepArgs{actions})
	if err == nil {
		s, err = v.steps(ctx, r)
	}
	if err != nil {
		v.reset = false
		return Steps{}, v.at(err)
	}
	return s, nil
}

func (v *Vector) envs() int {
	if v.child.cfg == nil {
		return 0
	}
	return v.child.cfg.Envs
}

// steps checks what a step has returned.
func (v *Vector) steps(ctx context.Context, r stepped) (s Steps, err error) {
	s.Observations = r.Observations
	if s.Rewards, err = Values[float32](r.Rewards); err == nil {
		if s.Terminated, err = Values[bool](r.Terminated); err == nil {
			s.Truncated, err = Values[bool](r.Truncated)
		}
	}
	n := v.envs()
	if err == nil && (len(s.Rewards) != n || len(s.Terminated) != n || len(s.Truncated) != n) {
		err = fmt.Errorf("%w: %d rewards, %d and %d ends of %d environments", ErrTensor, len(s.Rewards), len(s.Terminated), len(s.Truncated), n)
	}
	if err != nil {
		return s, fmt.Errorf("%s: the result of step: %w", nameOf(ctx), err)
	}
	if i := r.Rewards.nan(); i >= 0 {
		return s, v.fault(i, fmt.Errorf("the reward: %w", ErrNaN))
	}
	return s, v.check(s.Observations)
}

// check checks the observations of all environments.
func (v *Vector) check(o Tensor) error {
	if want := (Tensor{DType: v.like.DType, Shape: append([]int{v.envs()}, v.like.Shape...)}); o.DType != want.DType || !slices.Equal(o.Shape, want.Shape) {
		return v.fault(-1, fmt.Errorf("%w: observations %v, want %v", ErrShape, o, want))
	}
	if i := o.nan(); i >= 0 {
		row := len(o.Data) / o.DType.size() / v.envs()
		return v.fault(i/row, fmt.Errorf("element %d of the observation: %w", i%row, ErrNaN))
	}
	return nil
}

// fault says of an environment what the child does not know.
func (v *Vector) fault(env int, what error) error {
	return fmt.Errorf("%w: %w", &EnvError{v.child.run.name, env, v.seed + int64(max(env, 0)), v.step}, what)
}

// at makes a fault of an exception of one environment.
func (v *Vector) at(err error) error {
	e, ok := errors.AsType[*envRaised](err)
	switch {
	case !ok:
		return err
	case e.shape:
		return v.fault(e.env, fmt.Errorf("%w: %s", ErrShape, e.cause.Message))
	}
	return v.fault(e.env, e.cause)
}

// Vectors is a kind of grains that are a Vector each, with the handles of its methods. Make it once, in a package variable.
type Vectors struct {
	grains.Kind[Vector]
	Reset grains.Func[Vector, int64, Tensor]
	Step  grains.Func[Vector, Tensor, Steps]
}

// DefineVector makes a kind of grains under name, in the process-wide table. The first Reset of a grain starts its child. A bad
// definition is reported by system.New.
func DefineVector(name string, cfg Config, opts ...grains.Option) Vectors {
	err := cfg.check()
	if cfg.Envs == 0 {
		err = errEnvs
	}
	checked(name, err)
	k := grains.Define[Vector](name, append([]grains.Option{grains.Unfiltered()}, opts...)...)
	return Vectors{
		Kind: k,
		Reset: grains.Method(k, "reset", func(v *Vector, ctx context.Context, seed int64) (Tensor, error) {
			v.child.use(&cfg)
			return v.Reset(ctx, seed)
		}),
		Step: grains.Method(k, "step", (*Vector).Step),
	}
}
