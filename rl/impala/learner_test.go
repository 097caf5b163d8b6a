package impala_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/impala"
)

// played are items of Catch by fresh weights.
func played(t *testing.T, steps int) (list []rl.Trajectory) {
	t.Helper()
	agent, spec := impala.New(impala.Config{}), envs.Catch(1).Spec()
	x, err := agent.Experience()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := agent.Policy(spec)
	if err != nil {
		t.Fatal(err)
	}
	l, loop := learner(t, impala.Config{}), (*rl.Loop)(nil)
	if loop, err = rl.NewLoop(envs.Catch, 1, policy, x); err == nil {
		err = loop.Load(rl.Weights{Model: l.Model(), Params: l.Weights()})
	}
	for n := 0; n < steps && err == nil; n += 9 {
		_, err = loop.Episode()
		list = append(list, loop.Take()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func learner(t *testing.T, c impala.Config) rl.Learner {
	t.Helper()
	l, err := impala.New(c).Learner(context.Background(), envs.Catch(1).Spec(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestCheckpoint: one that unmarshals goes on as the other does.
func TestCheckpoint(t *testing.T) {
	list := played(t, 1200)
	half := len(list) / 2
	learn := func(l rl.Learner, list []rl.Trajectory) {
		t.Helper()
		if d, err := l.Learn(t.Context(), rl.Batch{Steps: list}); err != nil || d.Steps != 1 || math.IsNaN(d.Loss) {
			t.Fatal(d, err)
		}
	}
	a, b := learner(t, impala.Config{}), learner(t, impala.Config{})
	learn(a, list[:half])
	data, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	before := a.Weights()
	learn(a, list[half:])
	learn(b, list[half:])
	if cmp.Equal(before, a.Weights()) || !cmp.Equal(a.Weights(), b.Weights()) {
		t.Error("they go apart, or nothing was learned")
	}
	if err := learner(t, impala.Config{Hidden: 8}).UnmarshalBinary(data); !errors.Is(err, rl.ErrModel) {
		t.Error("of another model:", err)
	}
	for n := range len(data) {
		if n%97 == 0 && b.UnmarshalBinary(data[:n]) == nil {
			t.Errorf("the first %d bytes of %d are taken", n, len(data))
		}
	}
}

func TestDiverged(t *testing.T) {
	l, list := learner(t, impala.Config{}), played(t, 600)
	before := l.Weights()
	list[0].Rewards[0] = float32(math.NaN())
	if _, err := l.Learn(t.Context(), rl.Batch{Steps: list}); !errors.Is(err, rl.ErrDiverged) || !cmp.Equal(l.Weights(), before) {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	nan := math.NaN()
	for want, c := range map[string]impala.Config{
		"Config.Batch is -1": {Batch: -1}, "Config.Unroll is -1": {Unroll: -1}, "Config.Passes is -1": {Passes: -1}, "Config.Hidden is -1": {Hidden: -1},
		"Config.LearningRate is NaN": {LearningRate: nan}, "Config.Gamma is 2": {Gamma: 2}, "Config.Lambda is NaN": {Lambda: nan}, "Config.Rho is -1": {Rho: -1},
		"Config.RewardScale is -1": {RewardScale: -1}, "Config.Entropy is NaN": {Entropy: nan}, "Config.MaxGradNorm is NaN": {MaxGradNorm: nan},
	} {
		if _, err := impala.New(c).Experience(); !errors.Is(err, impala.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
	if _, err := impala.New(impala.Config{}).Policy(envs.Pendulum(1).Spec()); !errors.Is(err, impala.ErrConfig) || !strings.Contains(err.Error(), "use rl/ppo") {
		t.Error(err)
	}
	p, err := impala.New(impala.Config{}).Policy(envs.Catch(1).Spec())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Load(rl.Weights{Model: "another"}); !errors.Is(err, rl.ErrModel) {
		t.Error(err)
	}
}
