package dqn_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

// refused fails unless all that an agent makes for the environment is refused with ErrConfig, and with these words.
func refused(t *testing.T, c dqn.Config, spec rl.Spec, words string) {
	t.Helper()
	a := dqn.New(c)
	_, first := a.Learner(context.Background(), spec, 1)
	_, second := a.Policy(spec)
	for _, err := range []error{first, second} {
		if !errors.Is(err, dqn.ErrConfig) || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v, want %q", c, err, words)
		}
	}
}

func TestRefusals(t *testing.T) {
	for words, c := range map[string]dqn.Config{
		"Config.NStep is -1":                   {NStep: -1},
		"Config.Gamma is 1.5: give 0 to 1":     {Gamma: 1.5},
		"Config.Gamma is NaN":                  {Gamma: math.NaN()},
		"Config.LearningRate is -1":            {LearningRate: -1},
		"Config.LearningRate is +Inf":          {LearningRate: math.Inf(1)},
		"Config.Batch is -1":                   {Batch: -1},
		"Config.Target is -1":                  {Target: -1},
		"Config.Epsilon is 2":                  {Epsilon: 2},
		"Config.FirstEpsilon is -1":            {FirstEpsilon: -1},
		"Config.EpsilonSteps is -1":            {EpsilonSteps: -1},
		"Config.ReplaySize is -1":              {ReplaySize: -1},
		"Config.MinSize is 11: give 1 to 10":   {MinSize: 11, ReplaySize: 10},
		"Config.SamplesPerInsert is -1":        {SamplesPerInsert: -1},
		"Config.SamplesPerInsert is NaN":       {SamplesPerInsert: math.NaN()},
		"Config.PriorityExponent is -1":        {PriorityExponent: -1},
		"Config.ImportanceExponent is -1":      {ImportanceExponent: -1},
		"Config.Hidden is [64 0]: give widths": {Hidden: []int{64, 0}},
	} {
		refused(t, c, states, words)
		if _, err := dqn.New(c).Experience(); !errors.Is(err, dqn.ErrConfig) {
			t.Errorf("%+v: the experience is not refused: %v", c, err)
		}
	}
}

func TestVectorActions(t *testing.T) {
	refused(t, dqn.Config{}, envs.Pendulum(1).Spec(), "the actions of Pendulum are vectors, and DQN chooses among numbered ones: use rl/ppo")
}

var (
	unmeant  = rl.Define("unmeant", rl.Setup[int]{Env: envs.Catch, Agent: dqn.New(dqn.Config{NStep: -1})})
	pendulum = rl.Define("pendulum", rl.Setup[[]float32]{Env: envs.Pendulum, Agent: dqn.New(dqn.Config{})})
)

func TestTrainRefuses(t *testing.T) {
	for _, e := range []*rl.Experiment{unmeant, pendulum} {
		if _, err := e.Train(t.Context(), rl.Plan{Steps: 10}); !errors.Is(err, dqn.ErrConfig) {
			t.Error(err)
		}
	}
}

// TestLimiter: whatever the settings, the limiter lets a batch through, or an item; it keeps the ratio within its error buffer.
func TestLimiter(t *testing.T) {
	for _, c := range []dqn.Config{
		{},
		{MinSize: 1, ReplaySize: 1, Batch: 1, SamplesPerInsert: 0.01},
		{MinSize: 1, Batch: 100, SamplesPerInsert: 0.5},
		{MinSize: 1, Batch: 1, SamplesPerInsert: 100},
		{MinSize: 300, Batch: 7, SamplesPerInsert: 3.7, Prioritised: true},
	} {
		x, err := dqn.New(c).Experience()
		if err != nil {
			t.Fatal(err)
		}
		x.Table.Name = "t"
		table, err := replay.NewLocal[int](x.Table, 1)
		if err != nil {
			t.Fatal(err)
		}
		const inserts = 5000
		batches := 0
		sampled := func() bool { // the learner is as fast as it may be
			_, err := table.Sample(x.Batch)
			if err == nil {
				batches++
			}
			return err == nil
		}
		for range inserts {
			if err := table.Insert(1, 1); err != nil {
				t.Fatalf("%+v, %d batches: %v", c, batches, err)
			}
			for sampled() {
			}
		}
		ratio, before := or(c.SamplesPerInsert, 16), or(float64(c.MinSize), 1000) // the items before the first sample have none
		if got := float64(batches*x.Batch) / (inserts - before); math.Abs(got-ratio) > 0.1*ratio {
			t.Errorf("%+v: %v samples for an item, want %v", c, got, ratio)
		}
		for table.Insert(1, 1) == nil { // the actors are as fast as they may be
		}
		if !sampled() {
			t.Errorf("%+v: neither actors nor the learner can go on", c)
		}
	}
}

func or(x, otherwise float64) float64 {
	if x == 0 {
		return otherwise
	}
	return x
}
