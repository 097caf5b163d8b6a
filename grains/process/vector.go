package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys/grains"
)

// Vector is N environments in one child, stepped together. The zero Vector has none: Start it in OnActivate of a grain in whose struct
// it is, or use DefineVector. Only turns of the grain use it.
type Vector struct {
	child Child
	like  []Part // an observation: types and shapes, without data
	reset bool   // the environments have been reset
	seed  int64
	step  int
	last  []byte // what the Steps that were returned last have their observations in, where that is much
}

// Steps is what N environments have returned. An environment whose episode has ended is reset by the next step, which ignores its
// action and returns the first observation and a reward of 0: gymnasium's AutoresetMode.NEXT_STEP.
type Steps struct {
	Observations Tensor // N of them: float32, or uint8 where the environment has that
	// Parts has the observations where they are a Dict or a Tuple, in the order of its space, each of the type that it has in the environment.
	Parts      []Part
	Rewards    []float32
	Terminated []bool // the episode has ended
	Truncated  []bool // the episode was cut off, for example by a limit of its length
}

// Part is what N observations have under a name: that in a Dict, or the number in a Tuple. Of a Dict in a Dict it is as "inner.key".
type Part struct {
	Name string
	Tensor
}

// Start starts the child with cfg.Envs environments, in the place of one that v has. Reset comes next.
func (v *Vector) Start(ctx context.Context, cfg Config) error {
	if cfg.Envs <= 0 {
		return fmt.Errorf("start a child process: %w", errEnvs)
	}
	v.reset, v.like = false, nil
	return v.child.Start(ctx, cfg)
}

var errEnvs = errors.New("a Vector needs Envs of 1 or more")

// OnDeactivate implements grains.Deactivator: it kills the child, its process group and its descendants.
func (v *Vector) OnDeactivate(ctx context.Context) error { return v.child.OnDeactivate(ctx) }

// Reset begins new episodes in all environments and returns the first observations. Environment i gets seed+i, so that the same seed
// and the same actions give the same steps, also in a child that was started anew, unless the environment ignores its seed, as EnvPool does. gymnasium takes
// seeds of 0 or more. Observations with Parts are refused: Begin returns them.
func (v *Vector) Reset(ctx context.Context, seed int64) (Tensor, error) {
	s, err := v.Begin(ctx, seed)
	if err != nil || len(s.Parts) == 0 {
		return s.Observations, err
	}
	v.reset = false
	return Tensor{}, fmt.Errorf("%s: %w: the observations have parts, %v: Begin returns them; for one array set Config.Flatten, or wrap the environment in gymnasium's FlattenObservation",
		nameOf(ctx), ErrShape, named(s.Parts))
}

// Begin is Reset for observations with Parts, too. The Steps have no rewards.
func (v *Vector) Begin(ctx context.Context, seed int64) (s Steps, err error) {
	v.reset, v.seed, v.step = false, seed, 0
	values, err := json.Marshal(map[string]int64{"seed": seed})
	if err != nil {
		return s, err
	}
	if s, err = v.exchange(ctx, &message{Method: "reset", Values: values}); err != nil {
		return Steps{}, err
	}
	if v.like == nil {
		for _, p := range s.all() {
			if len(p.Shape) > 0 {
				v.like = append(v.like, Part{p.Name, Tensor{DType: p.DType, Shape: p.Shape[1:]}})
			}
		}
	}
	if err := v.check(s.all()); err != nil {
		return Steps{}, err
	}
	v.reset = true
	return s, nil
}

// Step makes a step in all environments: actions has one for each of them, int64 where they are numbered, or a row of float32. It fails
// with ErrReset where Reset has to come first, with ErrTensor where actions do not fit, with *EnvError when an environment fails, and as Call does. A number
// that is no action of a Discrete space is such a failure; numbers beyond the bounds of a Box are the environment's to judge.
func (v *Vector) Step(ctx context.Context, actions Tensor) (s Steps, err error) {
	n := v.envs()
	switch {
	case !v.reset || v.child.run == nil:
		return s, fmt.Errorf("%s: %w", nameOf(ctx), ErrReset)
	case len(actions.Shape) == 0 || actions.Shape[0] != n:
		return s, fmt.Errorf("%s: %w: actions %v for %d environments", nameOf(ctx), ErrTensor, actions, n)
	case actions.valid() != nil:
		return s, fmt.Errorf("%s: actions: %w", nameOf(ctx), actions.valid())
	case actions.nan() >= 0:
		return s, fmt.Errorf("%s: %w: the action of environment %d: %w", nameOf(ctx), ErrTensor, actions.nan()/max(1, len(actions.Data)/actions.DType.size()/n), ErrNaN)
	}
	v.step++
	s, err = v.exchange(ctx, &message{Method: "step", Tensors: []described{{"actions", actions.DType, actions.Shape, actions.Data}}})
	if err == nil && (len(s.Rewards) != n || len(s.Terminated) != n || len(s.Truncated) != n) {
		err = fmt.Errorf("%s: the result of step: %w: %d rewards, %d and %d ends of %d environments", nameOf(ctx), ErrTensor, len(s.Rewards), len(s.Terminated), len(s.Truncated), n)
	}
	if i := slices.IndexFunc(s.Rewards, func(r float32) bool { return r != r }); err == nil && i >= 0 {
		err = v.fault(i, fmt.Errorf("the reward: %w", ErrNaN))
	}
	if err == nil {
		err = v.check(s.all())
	}
	if err != nil {
		v.reset = false
		return Steps{}, err
	}
	return s, nil
}

// Reuse lets the next Steps be written over the observations of the last ones, which must not be used any more. A policy that has taken from images
// what it needs calls it before each Step: else each step leaves as many bytes to Go's garbage collector, which may take more time than the step. It
// changes nothing where a child has no shared memory, and for results below 64 KiB.
func (v *Vector) Reuse() {
	if v.child.run != nil {
		v.child.run.decoder.spare = v.last
	}
}

// partPrefix begins the name of a part in a frame.
const partPrefix = "observations/"

// exchange calls a method of the environments, and reads what it returns.
func (v *Vector) exchange(ctx context.Context, m *message) (s Steps, err error) {
	reply, err := v.child.call(ctx, m)
	if err != nil {
		return s, v.at(err)
	}
	v.last = reply.copy
	for _, d := range reply.Tensors {
		switch name, part := strings.CutPrefix(d.Name, partPrefix); {
		case part:
			s.Parts = append(s.Parts, Part{name, d.tensor()})
		case d.Name == "observations":
			s.Observations = d.tensor()
		case d.Name == "rewards":
			s.Rewards, err = Values[float32](d.tensor())
		case d.Name == "terminated":
			s.Terminated, err = Values[bool](d.tensor())
		case d.Name == "truncated":
			s.Truncated, err = Values[bool](d.tensor())
		default:
			err = fmt.Errorf("%w: %q is no tensor of a step", ErrValue, d.Name)
		}
		if err != nil {
			return s, fmt.Errorf("%s: the result of %s: %w", nameOf(ctx), m.Method, err)
		}
	}
	return s, nil
}

// all are the observations in parts: one without a name where they are one array.
func (s *Steps) all() []Part {
	if len(s.Parts) > 0 {
		return s.Parts
	}
	return []Part{{"", s.Observations}}
}

func named(parts []Part) string {
	var list []string
	for _, p := range parts {
		list = append(list, strings.TrimPrefix(p.Name+" "+p.String(), " "))
	}
	return strings.Join(list, ", ")
}

func (v *Vector) envs() int {
	if v.child.cfg == nil {
		return 0
	}
	return v.child.cfg.Envs
}

// check checks the observations of all environments.
func (v *Vector) check(parts []Part) error {
	want := make([]Part, len(v.like))
	for i, p := range v.like {
		want[i] = Part{p.Name, Tensor{DType: p.DType, Shape: append([]int{v.envs()}, p.Shape...)}}
	}
	same := func(a, b Part) bool { return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) }
	if !slices.EqualFunc(parts, want, same) {
		return v.fault(-1, fmt.Errorf("%w: observations %s, want %s", ErrShape, named(parts), named(want)))
	}
	for _, p := range parts {
		if i := p.nan(); i >= 0 {
			row := len(p.Data) / p.DType.size() / v.envs()
			return v.fault(i/row, fmt.Errorf("%s of the observation: %w", strings.TrimSuffix(fmt.Sprintf("element %d of %s", i%row, p.Name), " of "), ErrNaN))
		}
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
	Begin grains.Func[Vector, int64, Steps]
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
		Begin: grains.Method(k, "begin", func(v *Vector, ctx context.Context, seed int64) (Steps, error) {
			v.child.use(&cfg)
			return v.Begin(ctx, seed)
		}),
		Step: grains.Method(k, "step", (*Vector).Step),
	}
}
