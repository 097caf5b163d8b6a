package dqn

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// huberLimit is from which error on the loss is linear, as in Acme.
const huberLimit = 1

// leastPriority keeps an item of which nothing is left to learn from never being sampled again.
const leastPriority = 1e-3

// learner makes a step of each batch.
type learner struct {
	*Config
	net            net.MLP
	params, target []float32
	adam           net.Adam // its Steps are those of the learner

	// Memory of a step.
	work      net.Workspace
	grads     []float32
	obs, next []float32 // of each item
	best      []int     // of each item: the action that params prefer after it
	goals     []float32 // of each item: what the value of its action should be
	weights   []float64
	slopes    []float32 // the loss by each output of the net for obs
}

func (a *agent) Learner(_ context.Context, spec rl.Spec, seed uint64) (rl.Learner, error) {
	m, err := a.layout(&spec)
	if err != nil {
		return nil, err
	}
	params := m.Init(rand.New(rand.NewPCG(seed, 0xd9)), 1)
	return &learner{Config: &a.Config, net: m, params: params, target: slices.Clone(params), grads: make([]float32, m.Size())}, nil
}

func (l *learner) Model() string { return model(l.net) }

func (l *learner) Weights() []float32 { return slices.Clone(l.params) }

func (l *learner) Learn(_ context.Context, b rl.Batch) (rl.Learned, error) {
	n, size, out := len(b.Steps), l.net.In(), l.net.Out()
	l.obs, l.next, l.goals = l.obs[:0], l.next[:0], l.goals[:0]
	for i := range b.Steps {
		s := &b.Steps[i]
		l.obs = append(l.obs, s.Obs[:size]...)
		l.next = append(l.next, s.Obs[len(s.Obs)-size:]...)
	}
	l.aim(b)
	l.importance(b)

	values := l.net.Forward(l.params, l.obs, &l.work)
	l.slopes = append(l.slopes[:0], values...)
	clear(l.slopes)
	var priorities []float64
	if l.Prioritised {
		priorities = make([]float64, n)
	}
	sum := 0.0
	for i := range b.Steps {
		at := i*out + int(b.Steps[i].Actions[0])
		err := values[at] - l.goals[i]
		loss, slope := net.Huber(err, huberLimit)
		sum += l.weights[i] * float64(loss)
		l.slopes[at] = float32(l.weights[i] * float64(slope) / float64(n))
		if priorities != nil {
			priorities[i] = math.Abs(float64(err)) + leastPriority
		}
	}
	l.net.Backward(l.params, &l.work, l.slopes, l.grads)
	l.adam.Step(l.params, l.grads, l.LearningRate)
	if l.adam.Steps%l.Target == 0 {
		copy(l.target, l.params)
	}
	return rl.Learned{Steps: 1, Loss: sum / float64(n), Priorities: priorities}, nil
}

// aim computes what the value of each item's action should be: params choose the action that follows, and the target net says what it is worth. One net
// that did both would take the luckiest of its errors for the truth.
func (l *learner) aim(b rl.Batch) {
	out := l.net.Out()
	l.best = l.best[:0]
	values := l.net.Forward(l.params, l.next, &l.work)
	for i := range b.Steps {
		l.best = append(l.best, net.ArgMax(values[i*out:(i+1)*out]))
	}
	values = l.net.Forward(l.target, l.next, &l.work)
	for i := range b.Steps {
		s := &b.Steps[i]
		l.goals = append(l.goals, s.Rewards[0]+s.Discounts[0]*values[i*out+l.best[i]])
	}
}

// importance computes how much each item counts. One that is sampled more often than by chance would count for as many otherwise.
func (l *learner) importance(b rl.Batch) {
	l.weights = l.weights[:0]
	most := 0.0
	for i := range b.Steps {
		w := 1.0
		if l.Prioritised {
			w = math.Pow(float64(b.Size)*b.Probabilities[i], -l.ImportanceExponent)
		}
		l.weights = append(l.weights, w)
		most = max(most, w)
	}
	for i := range l.weights {
		l.weights[i] /= most
	}
}
