package impala

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/internal/descent"
	"github.com/raysys/raysys/rl/net"
)

// learner keeps trajectories until they have the steps of a batch, and then makes an update of them.
type learner struct {
	c Config
	m model
	state

	pile  []rl.Trajectory
	piled int // steps of them

	// What follows is memory that updates use again. Rows are all observations of all trajectories, the last ones too, in their order.
	obs                           []float32
	onPolicy, onValue             net.Workspace
	logProbs                      []float32 // of one row
	dPolicy, dValue               []float32
	gradP, gradV                  []float32
	logRatios, wanted, advantages []float32
}

// state is what a checkpoint has. What it refers to is not changed once it is the learner's: an update makes another.
type state struct {
	Model         string
	Updates       int
	Policy, Value descent.Descent
}

func newLearner(c Config, m model, seed uint64) *learner {
	rng := rand.New(rand.NewPCG(seed, 0))
	// The policy begins undecided, whatever it sees.
	l := &learner{c: c, m: m, state: state{m.String(), 0, descent.New(m.policy.Init(rng, 0.01)), descent.New(m.value.Init(rng, 1))}}
	l.gradP, l.gradV, l.logProbs = make([]float32, m.policy.Size()), make([]float32, m.value.Size()), make([]float32, m.policy.Out())
	return l
}

func (l *learner) Model() string { return l.m.String() }

func (l *learner) Weights() []float32 { return l.Policy.Params }

// Learn makes one update at most. After an error the learner is as it was before the batch that it could not learn from, which is dropped.
func (l *learner) Learn(_ context.Context, b rl.Batch) (rl.Learned, error) {
	for _, t := range b.Steps {
		l.pile = append(l.pile, t)
		l.piled += t.Len()
	}
	if l.piled < l.c.Batch {
		return rl.Learned{}, nil
	}
	l.obs = l.obs[:0]
	for i := range l.pile {
		l.obs = append(l.obs, l.pile[i].Obs...)
	}
	next := state{l.Model(), l.Updates + 1, l.Policy.Clone(), l.Value.Clone()}
	var loss float64
	for range l.c.Passes {
		loss = l.pass(&next)
	}
	clear(l.pile) // so that the trajectories go
	l.pile, l.piled = l.pile[:0], 0
	if !next.Policy.Finite() || !next.Value.Finite() {
		return rl.Learned{}, fmt.Errorf("update %d: %w", next.Updates, rl.ErrDiverged)
	}
	l.state = next
	return rl.Learned{Steps: 1, Loss: loss}, nil
}

// pass makes one step of each net by the trajectories of the pile, and returns the mean loss.
func (l *learner) pass(next *state) float64 {
	logits := l.m.policy.Forward(next.Policy.Params, l.obs, &l.onPolicy)
	values := l.m.value.Forward(next.Value.Params, l.obs, &l.onValue)
	l.dPolicy, l.dValue = zeros(l.dPolicy, len(logits)), zeros(l.dValue, len(values)) // they stay 0 at last observations
	sum, at, mean := 0.0, 0, 1/float64(l.piled)
	for i := range l.pile {
		t := &l.pile[i]
		sum += l.slopes(t, logits, values[at:at+t.Len()+1], at, mean)
		at += t.Len() + 1
	}
	l.m.policy.Backward(next.Policy.Params, &l.onPolicy, l.dPolicy, l.gradP)
	next.Policy.Step(l.gradP, l.c.MaxGradNorm, l.c.LearningRate)
	l.m.value.Backward(next.Value.Params, &l.onValue, l.dValue, l.gradV)
	next.Value.Step(l.gradV, l.c.MaxGradNorm, l.c.LearningRate)
	return sum * mean
}

// slopes writes those of the loss of a trajectory, whose first row is at, times mean, and returns the loss:
//
//	-advantage log p(a) - entropy H + (wanted - value)² / 2
//
// Neither the advantage nor what is wanted counts as depending on the nets.
func (l *learner) slopes(t *rl.Trajectory, logits, values []float32, at int, mean float64) (loss float64) {
	n, width, bonus := t.Len(), l.m.policy.Out(), max(l.c.Entropy, 0)
	l.logRatios, l.wanted, l.advantages = zeros(l.logRatios, n), zeros(l.wanted, n), zeros(l.advantages, n)
	row := func(k int) []float32 { return logits[(at+k)*width:][:width] }
	for k := range n {
		net.LogSoftmax(l.logProbs, row(k))
		l.logRatios[k] = l.logProbs[int(t.Actions[k])] - t.Extras[k]
	}
	vtrace(l.wanted, l.advantages, l.logRatios, t.Rewards, t.Discounts, values, &l.c)
	for k := range n {
		net.LogSoftmax(l.logProbs, row(k))
		entropy, advantage, a := float64(net.Entropy(l.logProbs)), float64(l.advantages[k]), int(t.Actions[k])
		d := l.dPolicy[(at+k)*width:][:width]
		for j, lp := range l.logProbs {
			if p := math.Exp(float64(lp)); p > 0 { // else an action that cannot be taken
				d[j] = float32(mean * p * (advantage + bonus*(float64(lp)+entropy)))
			}
		}
		d[a] -= float32(mean * advantage)
		e := float64(values[k] - l.wanted[k])
		l.dValue[at+k] = float32(mean * e)
		loss += e*e/2 - advantage*float64(l.logProbs[a]) - bonus*entropy
	}
	return loss
}

// zeros is n of them, in the memory of x where it has room.
func zeros(x []float32, n int) []float32 {
	x = slices.Grow(x[:0], n)[:n]
	clear(x)
	return x
}

// MarshalBinary has the Model and the state, which is all that the next update depends on. The trajectories that are kept for the next update are not in it: a
// learner that goes on has them collected anew.
func (l *learner) MarshalBinary() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(&l.state)
	return b.Bytes(), err
}

// UnmarshalBinary refuses a checkpoint of another Model, with rl.ErrModel, and one that is not whole. It drops the trajectories that were kept.
func (l *learner) UnmarshalBinary(b []byte) error {
	var next state
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&next); err != nil {
		return fmt.Errorf("impala: %d bytes are no checkpoint: %w", len(b), err)
	}
	if next.Model != l.Model() {
		return fmt.Errorf("a checkpoint of %q for %q: %w", next.Model, l.Model(), rl.ErrModel)
	}
	for i, have := range []descent.Descent{next.Policy, next.Value} {
		want := []int{len(l.gradP), len(l.gradV)}[i]
		if len(have.Params) != want || len(have.Adam.M) != want || len(have.Adam.V) != want {
			return fmt.Errorf("impala: a checkpoint of %q lacks numbers", next.Model)
		}
	}
	l.state, l.pile, l.piled = next, nil, 0
	return nil
}
