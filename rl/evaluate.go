package rl

import (
	"context"
	"math"
)

// Evaluate plays episodes in an environment of the given seed, and returns their mean return. The policy acts as well as it can; nil acts at random.
func Evaluate[A Action](env func(seed uint64) Env[A], seed uint64, policy Policy, episodes int) (float64, error) {
	mean, _, err := evaluate(context.Background(), worlds(env), seed, policy, episodes, math.MaxInt)
	return mean, err
}

// evaluate plays episodes. One that has no bound of its own is cut after so many steps as most says, and is the last one then: its return is that so far.
func evaluate(ctx context.Context, make maker, seed uint64, policy Policy, episodes, most int) (mean float64, whole bool, err error) {
	life, end := context.WithCancel(ctx) // of the environment
	defer end()
	l, err := newLoop(life, make, seed, policy, nil)
	if err != nil {
		return 0, false, err
	}
	late := newLateness("an evaluation")
	for steps := 0; episodes > l.number; steps++ {
		if steps%64 == 0 {
			if ctx.Err() != nil { // an episode may have no end
				return 0, false, context.Cause(ctx)
			}
			late.look(ctx, l)
		}
		e, err := l.Step()
		if err != nil {
			return 0, false, err
		}
		if e != nil {
			mean += e.Return
		} else if l.now.Steps >= most && l.spec.MaxSteps == 0 {
			return (mean + l.now.Return) / float64(l.number+1), false, nil
		}
	}
	return mean / float64(episodes), true, nil
}

// question asks for fresh episodes by the weights of a run, played as well as the policy can.
type question struct {
	Run      string
	Spec     Spec
	Seeds    [2]uint64
	Episodes int
	Stops    bool // at Goal
	Goal     float64
	Most     int // steps of an episode that has no bound
}

// measured is the outcome. A mean that reaches the goal may do so by luck, and a run looks for it often: so as many episodes more have to reach it
// too.
type measured struct {
	Mean    float64
	Final   float64 // of the last episodes that were played
	Reached bool
	Weights Weights // that reached the goal
}

var unmeasured = measured{Mean: math.NaN()}

func (e *Experiment) measure(ctx context.Context, w Weights, q question) (m measured, err error) {
	policy, err := e.agent.Policy(q.Spec)
	if err == nil {
		err = policy.Load(w)
	}
	if err != nil {
		return m, err
	}
	whole := false
	m.Mean, whole, err = evaluate(ctx, e.make, q.Seeds[0], policy, q.Episodes, q.Most)
	if m.Final = m.Mean; err != nil || !whole || !q.Stops || m.Mean < q.Goal {
		return m, err
	}
	m.Final, whole, err = evaluate(ctx, e.make, q.Seeds[1], policy, q.Episodes, q.Most)
	if m.Reached = whole && m.Final >= q.Goal; m.Reached {
		m.Weights = w
	}
	return m, err
}

// The parts of a run take what is random from seeds of their own: actors from 0 on, and these.
const (
	seedRandom   = 1 << 62
	seedEvaluate = 1 << 63
)

// seedOf is the seed of a part of the run of a seed: the finalizer of SplitMix64 over both, so that runs of near seeds share nothing.
func seedOf(run, part uint64) uint64 {
	z := run*0x9e3779b97f4a7c15 + part
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
