package rl_test

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	_ "embed"
	"encoding/gob"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/testkit"
)

//go:embed walk.py
var walkPy string

//go:embed dqn.py
var dqnPy string

var (
	walks = process.DefineVector("guide.walk", process.Config{Script: walkPy, New: "Walk", Envs: 1},
		grains.Placement(raysys.PreferLocal), grains.IdleAfter(time.Minute))
	newWalk = inPython(walks, rl.Spec{Name: "Walk", Obs: []int{2}, Actions: 2, MaxSteps: 20, Threshold: 0.9})
	walk    = rl.Define("guide.walk", rl.Setup[int]{EnvOn: newWalk, Agent: dqn.New(dqn.Config{})})
)

var (
	poles = process.DefineVector("guide.pole", process.Config{Gym: "CartPole-v1", Envs: 1},
		grains.Placement(raysys.PreferLocal), grains.IdleAfter(time.Minute))
	newPole = inPython(poles, rl.Spec{Name: "CartPole-v1", Obs: []int{4}, Actions: 2, MaxSteps: 500, Threshold: 475})
	pole    = rl.Define("guide.pole", rl.Setup[int]{EnvOn: newPole, Agent: dqn.New(dqn.Config{})})
)

// pyEnv is an environment of gymnasium's interface, in a child process of its own.
type pyEnv struct {
	ctx   context.Context
	kind  process.Vectors
	child grains.Grain[process.Vector]
	spec  rl.Spec
	rng   *rand.Rand  // draws a seed for each episode
	now   rl.EnvError // its Episode is the one that is played
	seed  int64       // of the episode
	made  []int64     // its actions
	on    bool
}

func inPython(kind process.Vectors, spec rl.Spec) func(context.Context, uint64) rl.Env[int] {
	return func(ctx context.Context, seed uint64) rl.Env[int] {
		child := kind.Get(crand.Text()) // of no other environment, also of none with this seed
		now := rl.EnvError{Name: spec.Name, Seed: seed, Episode: -1}
		return &pyEnv{ctx: ctx, kind: kind, child: child, spec: spec, rng: rand.New(rand.NewPCG(seed, 0)), now: now}
	}
}

func (e *pyEnv) Spec() rl.Spec { return e.spec }

func (e *pyEnv) Reset() []float32 {
	e.now.Episode++
	e.seed, e.made, e.on = int64(e.rng.Uint32()), e.made[:0], true
	return e.sure(e.play()).Obs
}

func (e *pyEnv) Step(action int) rl.Step {
	if !e.on || !rl.Valid(&e.spec, action) {
		e.fail("it takes no such action here")
	}
	e.made = append(e.made, int64(action))
	s := e.sure(e.step(int64(action)))
	e.on = !s.Done()
	return s
}

// play begins the episode, and makes its steps so far.
func (e *pyEnv) play() (s rl.Step, err error) {
	first, err := e.kind.Reset.Call(e.ctx, e.child, e.seed).Get(e.ctx)
	if err == nil {
		s.Obs, err = process.Values[float32](first)
	}
	for i := 0; i < len(e.made) && err == nil; i++ {
		s, err = e.step(e.made[i])
	}
	return s, err
}

// sure plays the episode again where its child was lost: at once, or when it is known that a node is dead.
func (e *pyEnv) sure(s rl.Step, err error) rl.Step {
	for wait := time.Millisecond; lost(err) && wait < 10*time.Second && e.ctx.Err() == nil; wait *= 2 {
		<-time.After(wait)
		s, err = e.play()
	}
	if err != nil {
		e.fail(err.Error())
	}
	return s
}

func lost(err error) bool {
	return errors.Is(err, process.ErrExited) || errors.Is(err, process.ErrReset) || errors.Is(err, raysys.ErrOutcomeUnknown) || raysys.Retriable(err)
}

func (e *pyEnv) step(action int64) (s rl.Step, err error) {
	v, err := e.kind.Step.Call(e.ctx, e.child, process.Of([]int64{action})).Get(e.ctx)
	if err == nil {
		s.Obs, err = process.Values[float32](v.Observations)
	}
	if err == nil {
		s.Reward, s.Terminated, s.Truncated = v.Rewards[0], v.Terminated[0], v.Truncated[0]
	}
	return s, err
}

func (e *pyEnv) fail(what string) {
	now := e.now
	now.Episode, now.Step, now.What = max(0, now.Episode), len(e.made), what
	panic(&now)
}

var (
	trainers = process.Define("guide.trainer", process.Config{Script: dqnPy, New: "Learner"}, grains.Placement(raysys.PreferLocal))
	tell     = process.Method[known, struct{}](trainers, "tell").With(raysys.Deadline(5 * time.Minute)) // it starts PyTorch
	learn    = process.Method[batch, learned](trainers, "learn")
)

// known is what a learner in Python knows: a checkpoint, and the first that a new child is told.
type known struct {
	Widths  []int          `json:"widths"`
	Weights process.Tensor `json:"weights"` // as rl/net has them
	State   process.Tensor `json:"state"`   // the target net, and the moments of Adam
}

type batch struct {
	Obs           process.Tensor `json:"obs"`
	Actions       process.Tensor `json:"actions"`
	Rewards       process.Tensor `json:"rewards"`
	Discounts     process.Tensor `json:"discounts"`
	Next          process.Tensor `json:"next"`
	Probabilities process.Tensor `json:"probabilities"`
	Size          int            `json:"size"` // of the table
}

type learned struct {
	Loss    float64        `json:"loss"`
	Errors  process.Tensor `json:"errors"`
	Weights process.Tensor `json:"weights"`
	State   process.Tensor `json:"state"`
}

// torchDQN acts as the agent of rl/dqn does, and learns in PyTorch.
type torchDQN struct {
	rl.Agent
	hidden []int // widths, as in the Config, where they have to be set
}

func newTorchDQN(c dqn.Config) rl.Agent { return torchDQN{dqn.New(c), c.Hidden} }

func (a torchDQN) Learner(ctx context.Context, spec rl.Spec, seed uint64) (rl.Learner, error) {
	first, err := a.Agent.Learner(ctx, spec, seed) // its net has the name and the first weights
	if err != nil {
		return nil, err
	}
	widths := slices.Concat([]int{spec.Size()}, a.hidden, []int{spec.Actions})
	return &torchLearner{child: trainers.Get(crand.Text()), model: first.Model(), known: known{Widths: widths, Weights: process.Of(first.Weights())}}, nil
}

type torchLearner struct {
	child grains.Grain[process.Child]
	model string
	known known
	told  bool // the child knows it too
}

func (l *torchLearner) Model() string { return l.model }

func (l *torchLearner) Weights() []float32 {
	w, _ := process.Values[float32](l.known.Weights) // Learn has looked at them
	return w
}

func (l *torchLearner) Learn(ctx context.Context, b rl.Batch) (rl.Learned, error) {
	var out learned
	var err error
	for range 2 { // a child that has died is told what it knew, and tries again
		if !l.told {
			_, err = tell.Call(ctx, l.child, l.known).Get(ctx)
		}
		if err == nil {
			out, err = learn.Call(ctx, l.child, l.batch(b)).Get(ctx)
		}
		if l.told = err == nil; l.told {
			break
		}
	}
	if err != nil {
		return rl.Learned{}, err
	}
	misses, err := process.Values[float32](out.Errors)
	if _, bad := process.Values[float32](out.Weights); bad != nil || err != nil {
		return rl.Learned{}, errors.Join(err, bad)
	}
	l.known.Weights, l.known.State = out.Weights, out.State
	priorities := make([]float64, len(misses))
	for i, m := range misses {
		priorities[i] = float64(m) + 1e-3
	}
	return rl.Learned{Steps: 1, Loss: out.Loss, Priorities: priorities}, nil
}

func (l *torchLearner) batch(b rl.Batch) batch {
	n, size := b.Len(), l.known.Widths[0]
	var obs, next, rewards, discounts []float32
	var actions []int64
	for _, t := range b.Steps {
		obs, next = append(obs, t.Obs[:size]...), append(next, t.Obs[size:]...)
		actions = append(actions, int64(t.Actions[0]))
		rewards, discounts = append(rewards, t.Rewards[0]), append(discounts, t.Discounts[0])
	}
	return batch{
		process.Of(obs, n, size), process.Of(actions, n, 1), process.Of(rewards, n, 1), process.Of(discounts, n, 1), process.Of(next, n, size),
		process.Of(b.Probabilities, n, 1), b.Size,
	}
}

func (l *torchLearner) MarshalBinary() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(l.known)
	return b.Bytes(), err
}

func (l *torchLearner) UnmarshalBinary(data []byte) error {
	l.told = false
	return gob.NewDecoder(bytes.NewReader(data)).Decode(&l.known)
}

var torchLift = rl.Define("guide.torch", rl.Setup[int]{
	Env:   NewLift,
	Agent: newTorchDQN(dqn.Config{Hidden: []int{64, 64}, Prioritised: true}),
})

// needs skips a test where Python has not these modules.
func needs(t *testing.T, modules string) {
	t.Helper()
	python := cmp.Or(os.Getenv("RAYSYS_PYTHON"), "python3")
	if b, err := exec.Command(python, "-c", "import "+modules).CombinedOutput(); err != nil {
		t.Skipf("%s has no %s: RAYSYS_PYTHON names a Python that has them (%v %.200s)", python, modules, err, b)
	}
}

// TestPython: what an environment in Python teaches repeats bit for bit.
func TestPython(t *testing.T) {
	needs(t, "json")
	ctx := testkit.New(t).Context()
	err := rl.Check(func(seed uint64) rl.Env[int] { return newWalk(ctx, seed) })
	if err != nil {
		t.Fatal(err)
	}
	var runs [2]*rl.Run
	for i := range runs {
		if runs[i], err = walk.Train(ctx, rl.Plan{Steps: 6000, Stop: rl.MeanReturn(50, 0.9)}); err != nil || !runs[i].Solved {
			t.Fatalf("%+v %v", runs[i], err)
		}
	}
	t.Log(runs[0])
	if a, b := runs[0], runs[1]; a.Steps != b.Steps || !slices.Equal(a.Weights.Params, b.Weights.Params) {
		t.Errorf("the same plan made other weights: %v and %v", a, b)
	}
}

func TestPythonOnTwo(t *testing.T) {
	needs(t, "json")
	k := testkit.New(t, testkit.Nodes(2))
	run, err := walk.Train(k.Context(), rl.Plan{Steps: 10_000, Actors: 2, Stop: rl.MeanReturn(50, 0.9)})
	if err != nil || !run.Solved {
		t.Errorf("%+v %v", run, err)
	}
	t.Log(run)
}

// TestGymnasium: the same over an environment of gymnasium's own, where random actions have a mean return of 22. The short form ends at 60.
func TestGymnasium(t *testing.T) {
	needs(t, "gymnasium")
	ctx := testkit.New(t).Context()
	if err := rl.Check(func(seed uint64) rl.Env[int] { return newPole(ctx, seed) }); err != nil {
		t.Error(err)
	}
	run, err := pole.Train(ctx, rl.Plan{Steps: 20_000, Episodes: long.Form(3, 0), Stop: rl.MeanReturn(long.Form(5, 20), long.Form(60., 150))})
	if err != nil || !run.Solved {
		t.Errorf("%+v %v", run, err)
	}
	t.Log(run)
}

// TestTorch: PyTorch and package dqn make the same of the same batches, also where a child was killed, or a checkpoint was read, in between.
func TestTorch(t *testing.T) {
	needs(t, "torch, numpy")
	ctx := testkit.New(t).Context()
	config, spec, rng := dqn.Config{Hidden: []int{8, 6}, Prioritised: true}, NewLift(1).Spec(), rand.New(rand.NewPCG(1, 1))
	agents := []rl.Agent{dqn.New(config), newTorchDQN(config)}
	var learners [2]rl.Learner
	for i, a := range agents {
		var err error
		if learners[i], err = a.Learner(ctx, spec, 1); err != nil {
			t.Fatal(err)
		}
	}
	for step := range 210 { // twice the target net is copied
		b, got := drawBatch(spec, rng), [2]rl.Learned{}
		for i, l := range learners {
			var err error
			if got[i], err = l.Learn(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		losses := [][]float64{{got[0].Loss}, {got[1].Loss}}
		g, w := learners[1].Weights(), learners[0].Weights()
		if !near(g, w) || !near(got[1].Priorities, got[0].Priorities) || !near(losses[1], losses[0]) {
			t.Fatalf("step %d: %v\n%v\nwant %v\n%v", step, g, got[1], w, got[0])
		}
		switch l := learners[1].(*torchLearner); step {
		case 50:
			if _, err := dies.Call(ctx, l.child).Get(ctx); err != nil {
				t.Fatal(err)
			}
		case 120:
			data, err := l.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			learners[1], _ = agents[1].Learner(ctx, spec, 2)
			if err := learners[1].UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dies ends the process of a learner.
var dies = dying(trainers)

func dying(k process.Kind) grains.Act0[process.Child] {
	return grains.Action0(k.Kind, "die", func(c *process.Child, _ context.Context) error {
		p, err := os.FindProcess(c.PID())
		if err != nil {
			return err
		}
		return p.Kill()
	})
}

func near[T float32 | float64](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return math.Abs(float64(x-y)) < 1e-3 })
}

func drawBatch(spec rl.Spec, rng *rand.Rand) rl.Batch {
	b := rl.Batch{Size: 100}
	for i := range 16 {
		s := rl.Trajectory{
			Actions: []float32{float32(rng.IntN(spec.Actions))}, Rewards: []float32{float32(rng.NormFloat64())}, Discounts: []float32{float32(rng.IntN(2))},
		}
		for range 2 * spec.Size() {
			s.Obs = append(s.Obs, float32(rng.NormFloat64()))
		}
		b.Steps, b.Keys, b.Probabilities = append(b.Steps, s), append(b.Keys, uint64(i)), append(b.Probabilities, (0.1+rng.Float64())/100)
	}
	return b
}

// TestTorchTrains: in one goroutine, and on nodes.
func TestTorchTrains(t *testing.T) {
	needs(t, "torch, numpy")
	for nodes := range 2 {
		ctx := testkit.New(t, testkit.Nodes(2*nodes)).Context()
		run, err := torchLift.Train(ctx, rl.Plan{Steps: 40_000, Actors: 2 * nodes, Stop: rl.MeanReturn(100, 0.8)})
		if err != nil || !run.Solved || run.Weights.Model != "dqn 16-64-64-3 relu" {
			t.Errorf("%+v %v", run, err)
		}
		t.Log(run)
	}
}
