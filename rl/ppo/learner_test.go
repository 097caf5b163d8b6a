package ppo_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
)

func newLearner(t testing.TB, c ppo.Config, spec rl.Spec) rl.Learner {
	t.Helper()
	l, err := ppo.New(c).Learner(context.Background(), spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// played are items of so many steps at least, in Pendulum, by the weights of the learner.
func played(t testing.TB, l rl.Learner, seed uint64, steps int) (list []rl.Trajectory) {
	t.Helper()
	agent := ppo.New(ppo.Config{})
	x, err := agent.Experience()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := agent.Policy(envs.Pendulum(1).Spec())
	if err != nil {
		t.Fatal(err)
	}
	loop, err := rl.NewLoop(envs.Pendulum, seed, policy, x)
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Load(rl.Weights{Model: l.Model(), Params: l.Weights()}); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < steps; n = stepsOf(list) {
		if _, err := loop.Episode(); err != nil {
			t.Fatal(err)
		}
		list = append(list, loop.Take()...)
	}
	return list
}

func stepsOf(list []rl.Trajectory) (n int) {
	for i := range list {
		n += list[i].Len()
	}
	return n
}

// learn hands the list over at once, and wants so many updates.
func learn(t testing.TB, l rl.Learner, list []rl.Trajectory, updates int) rl.Learned {
	t.Helper()
	learned, err := l.Learn(context.Background(), rl.Batch{Steps: list})
	if err != nil || learned.Steps != updates {
		t.Fatalf("learned %+v, %v: want %d updates", learned, err, updates)
	}
	return learned
}

func checkpoint(t testing.TB, l rl.Learner) []byte {
	t.Helper()
	b, err := l.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLearnsByBatches: trajectories that come one by one are kept until they are a batch, and lead to the same as if they had come at once. Weights that were
// handed out stay as they are.
func TestLearnsByBatches(t *testing.T) {
	spec := envs.Pendulum(1).Spec()
	c := ppo.Config{Batch: 1000, Epochs: 2}
	one, all := newLearner(t, c, spec), newLearner(t, c, spec)
	list := played(t, one, 1, 1000)
	before := one.Weights()
	copied := slices.Clone(before)
	for i, tr := range list {
		learned := learn(t, one, []rl.Trajectory{tr}, i/(len(list)-1))
		if last := i == len(list)-1; last != (learned.Loss != 0) || last == slices.Equal(before, one.Weights()) {
			t.Errorf("after item %d of %d: %+v", i, len(list), learned)
		}
	}
	learn(t, all, list, 1)
	if !slices.Equal(one.Weights(), all.Weights()) {
		t.Error("items that come one by one lead elsewhere")
	}
	if !slices.Equal(before, copied) {
		t.Error("the update changed weights that were handed out")
	}
	learn(t, one, list[:1], 0) // the pile begins anew
}

// TestCheckpoint: a learner that goes on from a checkpoint goes on bit for bit as the one that made it, whatever it was itself.
func TestCheckpoint(t *testing.T) {
	spec := envs.Pendulum(1).Spec()
	c := ppo.Config{Batch: 600, Epochs: 2}
	l := newLearner(t, c, spec)
	learn(t, l, played(t, l, 1, 600), 1)
	saved := checkpoint(t, l)
	other, err := ppo.New(c).Learner(context.Background(), spec, 99)
	if err != nil {
		t.Fatal(err)
	}
	learn(t, other, played(t, l, 2, 200), 0) // is dropped
	if err := other.UnmarshalBinary(saved); err != nil {
		t.Fatal(err)
	}
	next := played(t, l, 3, 600)
	if a, b := learn(t, l, next, 1), learn(t, other, next, 1); a.Loss != b.Loss {
		t.Errorf("losses %v and %v", a.Loss, b.Loss)
	}
	if !cmp.Equal(checkpoint(t, l), checkpoint(t, other)) {
		t.Error("the learners differ after another update")
	}
	if cmp.Equal(saved, checkpoint(t, l)) {
		t.Error("the update changed nothing")
	}
}

func TestCheckpointRefused(t *testing.T) {
	spec := envs.Pendulum(1).Spec()
	l := newLearner(t, ppo.Config{}, spec)
	own := checkpoint(t, l)
	for name, tc := range map[string]struct {
		b       []byte
		another bool
	}{
		"another width":       {checkpoint(t, newLearner(t, ppo.Config{Hidden: 32}, spec)), true},
		"another environment": {checkpoint(t, newLearner(t, ppo.Config{}, envs.CartPole(1).Spec())), true},
		"nothing":             {nil, false},
		"the end is missing":  {own[:len(own)-1], false},
		"more at the end":     {append(slices.Clone(own), 0), false},
		"a length too large":  {[]byte{100, 1, 2}, false},
	} {
		if err := l.UnmarshalBinary(tc.b); err == nil || errors.Is(err, rl.ErrModel) != tc.another {
			t.Errorf("%s: %v, is ErrModel: want %v", name, err, tc.another)
		}
	}
	if !cmp.Equal(own, checkpoint(t, l)) {
		t.Error("what was refused left a trace")
	}
}

// TestDiverged: an update that leads to no numbers is refused, and the learner stays as it was.
func TestDiverged(t *testing.T) {
	l := newLearner(t, ppo.Config{Batch: 200, Epochs: 1}, envs.Pendulum(1).Spec())
	list := played(t, l, 1, 200)
	before := checkpoint(t, l)
	spoiled := slices.Clone(list)
	spoiled[0].Rewards = slices.Repeat([]float32{float32(math.NaN())}, spoiled[0].Len())
	if _, err := l.Learn(context.Background(), rl.Batch{Steps: spoiled}); !errors.Is(err, rl.ErrDiverged) {
		t.Errorf("%v, want ErrDiverged", err)
	}
	if !cmp.Equal(before, checkpoint(t, l)) {
		t.Error("the failed update left a trace")
	}
	learn(t, l, list, 1)
}

func TestConfigRefused(t *testing.T) {
	nan := math.NaN()
	for field, c := range map[string]ppo.Config{
		"Batch": {Batch: -1}, "Hidden": {Hidden: -1}, "LearningRate": {LearningRate: -1}, "Gamma": {Gamma: 1.1}, "Lambda": {Lambda: -0.5},
		"RewardScale": {RewardScale: math.Inf(1)}, "Clip": {Clip: 1}, "Entropy": {Entropy: nan}, "Epochs": {Epochs: -1}, "Minibatch": {Minibatch: -1},
		"MaxGradNorm": {MaxGradNorm: nan}, "TargetKL": {TargetKL: nan},
	} {
		_, err := ppo.New(c).Learner(context.Background(), envs.CartPole(1).Spec(), 1)
		if !errors.Is(err, ppo.ErrConfig) || !strings.Contains(err.Error(), "Config."+field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
		if _, also := ppo.New(c).Experience(); also == nil || also.Error() != err.Error() {
			t.Errorf("%s: Experience fails with %v, and Learner with %v", field, also, err)
		}
	}
}

func TestEnvironmentRefused(t *testing.T) {
	for name, spec := range map[string]rl.Spec{
		"no actions":     {Obs: []int{2}},
		"actions twice":  {Obs: []int{2}, Actions: 2, Low: []float32{0}, High: []float32{1}},
		"a bound less":   {Obs: []int{2}, Low: []float32{0, 0}, High: []float32{1}},
		"no observation": {Obs: []int{2, 0}, Actions: 2},
	} {
		_, err := ppo.New(ppo.Config{}).Learner(context.Background(), spec, 1)
		_, also := ppo.New(ppo.Config{}).Policy(spec)
		if !errors.Is(err, ppo.ErrConfig) || !errors.Is(also, ppo.ErrConfig) {
			t.Errorf("%s: %v and %v, want ErrConfig", name, err, also)
		}
	}
}

// TestUpdatesAllocateLittle: beside the state that an update hands out, its memory is that of the one before.
func TestUpdatesAllocateLittle(t *testing.T) {
	l := newLearner(t, ppo.Config{Batch: 1000}, envs.Pendulum(1).Spec())
	list := played(t, l, 1, 1000)
	learn(t, l, list, 1)
	if n := testing.AllocsPerRun(3, func() { learn(t, l, list, 1) }); n > 20 {
		t.Errorf("%v allocations in an update", n)
	}
}

// BenchmarkUpdate reports, beside the time of an update, the rate in rows of one pass.
func BenchmarkUpdate(b *testing.B) {
	// There is no target, so that every update makes all epochs.
	const epochs = 6
	l := newLearner(b, ppo.Config{TargetKL: -1, Epochs: epochs}, envs.Pendulum(1).Spec())
	list := played(b, l, 1, 2048)
	start := checkpoint(b, l)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if err := l.UnmarshalBinary(start); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		learn(b, l, list, 1)
	}
	b.ReportMetric(float64(b.N*epochs*stepsOf(list))/b.Elapsed().Seconds(), "rows/s")
}
