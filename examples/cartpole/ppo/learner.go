package ppo

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/raysys/raysys/examples/cartpole/env"
)

var (
	// ErrNoSteps is the state of an update without a single step to learn from.
	ErrNoSteps = errors.New("ppo: no steps to learn from")

	// ErrDiverged is the state of an update that led to weights that are not
	// numbers. The learner keeps those it had.
	ErrDiverged = errors.New("ppo: weights diverged")
)

// State is all a Learner knows, in plain columns: kept, it survives the learner.
// Like Weights it never changes once returned.
type State struct {
	Config  Config
	Weights Weights

	// Policy and Value are the optimisers of the two nets.
	Policy, Value Adam

	// Steps counts the environment steps learned from.
	Steps int
}

// Learner turns trajectories into better weights. It is sequential: a single
// owner calls it.
type Learner struct {
	state State
	// mini and the passes are the scratch of a minibatch, kept between updates.
	mini          batch
	policy, value net
	onPolicy      *pass
	onValue       *pass
	gradP, gradV  []float64
	logProbs      []float64
}

// NewLearner returns a learner with initial weights for an environment of this
// spec, or ErrConfig.
func NewLearner(c Config, spec env.Spec) (*Learner, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	if spec.Obs <= 0 || spec.Actions <= 0 {
		return nil, fmt.Errorf("%w: environment with %d observed values and %d actions", ErrShape, spec.Obs, spec.Actions)
	}
	return newLearner(State{Config: c, Weights: NewWeights(spec, c.Hidden, c.Seed)}), nil
}

// Resume returns a learner that goes on where the one that returned s was.
func Resume(s State) (*Learner, error) {
	s.Config = s.Config.withDefaults()
	if err := errors.Join(s.Config.check(), s.Weights.Check()); err != nil {
		return nil, err
	}
	for _, o := range []struct {
		name   string
		adam   Adam
		params []float64
	}{{"policy", s.Policy, s.Weights.Policy}, {"value", s.Value, s.Weights.Value}} {
		if len(o.adam.M) != len(o.adam.V) || o.adam.M != nil && len(o.adam.M) != len(o.params) {
			return nil, fmt.Errorf("%w: %d and %d %s moments for %d weights",
				ErrShape, len(o.adam.M), len(o.adam.V), o.name, len(o.params))
		}
	}
	return newLearner(s), nil
}

func newLearner(s State) *Learner {
	l := &Learner{state: s, policy: s.Weights.policyNet(), value: s.Weights.valueNet()}
	// Equal parts of about Minibatch rows are at most half as large again.
	rows := s.Config.Minibatch + s.Config.Minibatch/2 + 1
	l.mini = newBatch(rows, s.Weights.Obs)
	l.onPolicy, l.onValue = l.policy.newPass(rows), l.value.newPass(rows)
	l.gradP, l.gradV = make([]float64, l.policy.size()), make([]float64, l.value.size())
	l.logProbs = make([]float64, s.Weights.Actions)
	return l
}

// Weights returns the current weights, to be published as they are.
func (l *Learner) Weights() Weights { return l.state.Weights }

// State returns what Resume needs.
func (l *Learner) State() State { return l.state }

// Update learns from trajectories, which count in the order given: another
// order is another minibatch and other weights. On an error the learner is as
// it was before.
func (l *Learner) Update(trajs []Trajectory) (Stats, error) {
	rows := 0
	for i := range trajs {
		if err := trajs[i].check(l.state.Weights); err != nil {
			return Stats{}, fmt.Errorf("check trajectory %d: %w", i, err)
		}
		rows += trajs[i].Steps()
	}
	if rows == 0 {
		return Stats{}, ErrNoSteps
	}

	next := l.state.successor(rows)
	c := next.Config
	all := gather(trajs, rows, c)
	stats := newStats(trajs, all)
	standardize(all.advantages)

	order := make([]int, rows)
	for i := range order {
		order[i] = i
	}
	rng := Stream(c.Seed, l.state.Weights.Version, streamShuffle)
	parts := max(1, int(math.Round(float64(rows)/float64(c.Minibatch))))
	for stats.Epochs < c.Epochs {
		rng.Shuffle(rows, func(i, j int) { order[i], order[j] = order[j], order[i] })
		var terms policyTerms
		var valueSum float64
		for p := range parts {
			b := l.mini.take(all, order[p*rows/parts:(p+1)*rows/parts])
			valueSum += l.descend(&next, b, &terms)
		}
		stats.Epochs++
		stats.record(terms, valueSum)
		if c.TargetKL > 0 && stats.KL > c.TargetKL {
			break
		}
	}
	if !finite(next.Weights.Policy) || !finite(next.Weights.Value) {
		return Stats{}, fmt.Errorf("update %d: %w", next.Weights.Version, ErrDiverged)
	}
	l.state = next
	stats.Version, stats.TotalSteps = next.Weights.Version, next.Steps
	return stats, nil
}

// successor copies what an update writes, so that weights and moments that were
// handed out stay as they are, and a bad update can be dropped whole.
func (s State) successor(steps int) State {
	s.Weights.Version++
	s.Weights.Policy, s.Weights.Value = slices.Clone(s.Weights.Policy), slices.Clone(s.Weights.Value)
	for _, a := range []*Adam{&s.Policy, &s.Value} {
		a.M, a.V = slices.Clone(a.M), slices.Clone(a.V)
	}
	s.Steps += steps
	return s
}

// descend makes one gradient step of each net on a minibatch.
func (l *Learner) descend(s *State, b batch, terms *policyTerms) (valueSum float64) {
	c, rows := s.Config, b.obs.Rows
	logits := l.policy.forward(s.Weights.Policy, b.obs, l.onPolicy)
	policyLoss(l.policy.output(l.onPolicy, rows), logits, b.actions, b.logProbs, b.advantages,
		c.Clip, max(c.Entropy, 0), l.logProbs, terms)
	l.policy.backward(s.Weights.Policy, b.obs, l.onPolicy, l.gradP)
	clipNorm(l.gradP, c.MaxGradNorm)
	s.Policy.Step(s.Weights.Policy, l.gradP, c.LearningRate)

	predicted := l.value.forward(s.Weights.Value, b.obs, l.onValue)
	valueSum = valueLoss(l.value.output(l.onValue, rows), predicted, b.returns)
	l.value.backward(s.Weights.Value, b.obs, l.onValue, l.gradV)
	clipNorm(l.gradV, c.MaxGradNorm)
	s.Value.Step(s.Weights.Value, l.gradV, c.LearningRate)
	return valueSum
}

// clipNorm scales grad down to norm bound; a negative bound is none.
func clipNorm(grad []float64, bound float64) {
	if norm := floats.Norm(grad, 2); bound > 0 && norm > bound {
		floats.Scale(bound/norm, grad)
	}
}

func finite(x []float64) bool {
	// NaN and both infinities survive a sum, or meet in it as NaN.
	s := floats.Sum(x)
	return !math.IsNaN(s) && !math.IsInf(s, 0)
}
