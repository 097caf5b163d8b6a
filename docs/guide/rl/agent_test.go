package rl_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/testkit"
)

// means is an agent for bandits.
type means struct{ explore float64 }

func (m means) Experience() (rl.Experience, error) {
	return rl.Experience{
		Adder: rl.NStep(1, 1),
		Table: replay.Table{MaxSize: 1000, Sampler: replay.FIFO, MaxTimesSampled: 1, Limiter: replay.Queue(100)},
		Batch: 10,
	}, nil
}

func (m means) Policy(rl.Spec) (rl.Policy, error) { return &meanPolicy{means: m}, nil }

type meanPolicy struct {
	means
	value []float32
}

func (p *meanPolicy) Load(w rl.Weights) error { p.value = w.Params; return nil }

func (p *meanPolicy) Act(obs []float32, rng *rand.Rand, action, extra []float32) {
	action[0] = float32(slices.Index(p.value, slices.Max(p.value)))
	if rng != nil && rng.Float64() < p.explore {
		action[0] = float32(rng.IntN(len(p.value)))
	}
}

func (m means) Learner(_ context.Context, spec rl.Spec, seed uint64) (rl.Learner, error) {
	return &meanLearner{Value: make([]float32, spec.Actions), N: make([]float32, spec.Actions)}, nil
}

type meanLearner struct{ Value, N []float32 }

func (l *meanLearner) Learn(_ context.Context, b rl.Batch) (rl.Learned, error) {
	loss := 0.0
	for _, t := range b.Steps {
		arm := int(t.Actions[0])
		l.N[arm]++
		miss := t.Rewards[0] - l.Value[arm]
		l.Value[arm] += miss / l.N[arm]
		loss += float64(miss*miss) / float64(b.Len())
	}
	return rl.Learned{Steps: 1, Loss: loss}, nil
}

func (l *meanLearner) Weights() []float32 { return slices.Clone(l.Value) }
func (l *meanLearner) Model() string      { return fmt.Sprintf("means of %d arms", len(l.Value)) }

func (l *meanLearner) MarshalBinary() ([]byte, error) {
	return binary.Append(nil, binary.LittleEndian, slices.Concat(l.Value, l.N))
}

func (l *meanLearner) UnmarshalBinary(b []byte) error {
	both := make([]float32, 2*len(l.N))
	_, err := binary.Decode(b, binary.LittleEndian, both)
	copy(l.Value, both)
	copy(l.N, both[len(l.N):])
	return err
}

var arms = rl.Define("guide.arms", rl.Setup[int]{
	Env:   func(seed uint64) rl.Env[int] { return envs.Bandit(seed, 0.2, 0.5, 0.8) },
	Agent: means{explore: 0.1},
})

func TestAgent(t *testing.T) {
	ctx := t.Context()
	run, err := arms.Train(ctx, rl.Plan{Steps: 2000, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if run.MeanReturn < 0.65 || run.RandomReturn > 0.65 || run.LearnerSteps != 200 {
		t.Errorf("%+v", run)
	}
	k := testkit.New(t, testkit.Nodes(3))
	if run, err = arms.Train(k.Context(), rl.Plan{Steps: 2000, Actors: 4, Progress: io.Discard}); err != nil || run.MeanReturn < 0.65 {
		t.Errorf("%+v %v", run, err)
	}
}

func TestMeansAreKept(t *testing.T) {
	a := &meanLearner{Value: []float32{1, 2}, N: []float32{3, 4}}
	b := &meanLearner{Value: make([]float32, 2), N: make([]float32, 2)}
	data, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.UnmarshalBinary(data); err != nil || !slices.Equal(b.Value, a.Value) || !slices.Equal(b.N, a.N) {
		t.Errorf("%+v %v", b, err)
	}
}

func TestMain(m *testing.M) { testkit.Main(m) }
