package rl_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/raysys/raysys/grains/replay"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// arms is an agent for bandits: it keeps what each action returned, in the mean, and takes the best. Its hooks break rules.
type arms struct {
	adder   rl.Adder
	limiter replay.Limiter
	size    int
	loss    func(steps int) float64
	act     func(action []float32)
	extra   int
	seen    func(b rl.Batch)
}

func (a arms) Experience() (rl.Experience, error) {
	x := rl.Experience{Adder: a.adder, Table: replay.Table{MaxSize: max(a.size, 1000), Limiter: a.limiter}, Batch: 4, Extra: a.extra}
	if x.Adder == (rl.Adder{}) {
		x.Adder = rl.NStep(1, 1)
	}
	if a.limiter.String() == "" {
		x.Table.Limiter = replay.SampleToInsertRatio(2, 20, 40)
	}
	return x, nil
}

func (a arms) Learner(_ context.Context, spec rl.Spec, seed uint64) (rl.Learner, error) {
	if spec.Actions == 0 {
		return nil, fmt.Errorf("%w: no arms", rl.ErrPlan)
	}
	return &armsLearner{arms: a, sum: make([]float32, spec.Actions), n: make([]float32, spec.Actions)}, nil
}

func (a arms) Policy(spec rl.Spec) (rl.Policy, error) {
	return &armsPolicy{arms: a, n: spec.Actions}, nil
}

type armsPolicy struct {
	arms
	n int
	w []float32
}

func (p *armsPolicy) Load(w rl.Weights) error { p.w = w.Params; return nil }

func (p *armsPolicy) Act(_ []float32, rng *rand.Rand, action, extra []float32) {
	action[0] = float32(net.ArgMax(p.w))
	if rng != nil && rng.Float64() < 0.2 {
		action[0] = float32(rng.IntN(p.n))
	}
	if rng != nil {
		for i := range extra {
			extra[i] = action[0]
		}
	}
	if p.act != nil {
		p.act(action)
	}
}

type armsLearner struct {
	arms
	sum, n []float32
	steps  int
}

// model is what learners of all experiments say after their name.
var model atomic.Pointer[string]

func (l *armsLearner) Model() string {
	if m := model.Load(); m != nil {
		return *m
	}
	return "arms " + strconv.Itoa(len(l.sum))
}

func (l *armsLearner) Learn(_ context.Context, b rl.Batch) (rl.Learned, error) {
	if l.seen != nil {
		l.seen(b)
	}
	for _, t := range b.Steps {
		for i, r := range t.Rewards {
			l.sum[int(t.Actions[i])] += r
			l.n[int(t.Actions[i])]++
		}
	}
	l.steps++
	loss := 1 / float64(l.steps)
	if l.loss != nil {
		loss = l.loss(l.steps)
	}
	return rl.Learned{Steps: 1, Loss: loss}, nil
}

func (l *armsLearner) Weights() []float32 {
	w := make([]float32, len(l.sum))
	for i := range w {
		w[i] = l.sum[i] / max(1, l.n[i])
	}
	return w
}

func (l *armsLearner) MarshalBinary() (b []byte, err error) {
	b = binary.LittleEndian.AppendUint64(b, uint64(l.steps))
	for i := range l.sum {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(l.sum[i]))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(l.n[i]))
	}
	return append(b, make([]byte, pad.Load())...), nil
}

// pad is how much longer than it has to be a checkpoint of any experiment is.
var pad atomic.Int64

func (l *armsLearner) UnmarshalBinary(b []byte) error {
	if want := 8 + 8*len(l.sum) + int(pad.Load()); len(b) != want {
		return fmt.Errorf("a checkpoint has %d bytes, want %d", len(b), want)
	}
	l.steps = int(binary.LittleEndian.Uint64(b))
	for i := range l.sum {
		l.sum[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[8+8*i:]))
		l.n[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[12+8*i:]))
	}
	return nil
}
