package ppo

import (
	"context"
	"fmt"
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

	// What follows is memory that updates use again.
	all, mini          batch
	order              []int
	onPolicy, onValue  net.Workspace
	gradP, gradV, dOut []float32
}

// state is what a checkpoint has. What it refers to is not changed once it is the learner's: an update makes another.
type state struct {
	seed    uint64
	updates int
	policy  descent.Descent
	value   descent.Descent
}

func newLearner(c Config, m model, seed uint64) *learner {
	rng := rand.New(rand.NewPCG(seed, 0))
	// The policy begins undecided, whatever it sees.
	params := append(m.policy.Init(rng, 0.01), make([]float32, m.beside)...)
	l := &learner{c: c, m: m, state: state{seed: seed, policy: descent.New(params), value: descent.New(m.value.Init(rng, 1))}}
	l.gradP, l.gradV = make([]float32, len(params)), make([]float32, m.value.Size())
	return l
}

func (l *learner) Model() string { return l.m.String() }

func (l *learner) Weights() []float32 { return l.policy.Params }

// Learn makes one update at most. After an error the learner is as it was before the batch that it could not learn from, which is dropped.
func (l *learner) Learn(_ context.Context, b rl.Batch) (rl.Learned, error) {
	for _, t := range b.Steps {
		l.pile = append(l.pile, t)
		l.piled += t.Len()
	}
	if l.piled < l.c.Batch {
		return rl.Learned{}, nil
	}
	l.all.gather(l.pile, l.piled, &l.m, l.value.Params, &l.onValue, &l.c)
	clear(l.pile) // so that the trajectories go
	l.pile, l.piled = l.pile[:0], 0

	next := state{l.seed, l.updates + 1, l.policy.Clone(), l.value.Clone()}
	loss := l.update(&next)
	if !next.policy.Finite() || !next.value.Finite() {
		return rl.Learned{}, fmt.Errorf("update %d: %w", next.updates, rl.ErrDiverged)
	}
	l.state = next
	return rl.Learned{Steps: 1, Loss: loss}, nil
}

// update makes the epochs of an update, and returns the mean loss of the last.
func (l *learner) update(next *state) (loss float64) {
	rows := l.all.rows()
	l.order = l.order[:0]
	for i := range rows {
		l.order = append(l.order, i)
	}
	rng := rand.New(rand.NewPCG(next.seed, uint64(next.updates)))
	parts := max(1, (rows+l.c.Minibatch/2)/l.c.Minibatch)
	for range l.c.Epochs {
		rng.Shuffle(rows, func(i, j int) { l.order[i], l.order[j] = l.order[j], l.order[i] })
		var sum losses
		for p := range parts {
			l.mini.take(&l.all, l.order[p*rows/parts:(p+1)*rows/parts], l.m.value.In(), l.m.action)
			l.descend(next, &sum)
		}
		loss = sum.loss / float64(rows)
		if l.c.TargetKL > 0 && sum.kl/float64(rows) > l.c.TargetKL {
			break
		}
	}
	return loss
}

// descend makes one step of each net, by the minibatch.
func (l *learner) descend(next *state, sum *losses) {
	inNet, beside := l.m.split(next.policy.Params)
	gradNet, gradBeside := l.m.split(l.gradP)
	clear(gradBeside)
	out := l.m.policy.Forward(inNet, l.mini.obs, &l.onPolicy)
	l.dOut = slices.Grow(l.dOut[:0], len(out))[:len(out)]
	policyLoss(l.m.head, l.dOut, gradBeside, out, beside, &l.mini, &l.c, sum)
	l.m.policy.Backward(inNet, &l.onPolicy, l.dOut, gradNet)
	next.policy.Step(l.gradP, l.c.MaxGradNorm, l.c.LearningRate)

	out = l.m.value.Forward(next.value.Params, l.mini.obs, &l.onValue)
	l.dOut = l.dOut[:len(out)]
	valueLoss(l.dOut, out, l.mini.wanted, sum)
	l.m.value.Backward(next.value.Params, &l.onValue, l.dOut, l.gradV)
	next.value.Step(l.gradV, l.c.MaxGradNorm, l.c.LearningRate)
}
