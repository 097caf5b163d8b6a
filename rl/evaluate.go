package rl

import (
	"context"
	"math"
)

// Evaluate plays episodes in an environment of the given seed, and returns their mean return. The policy acts as well as it can; nil acts at random.
func Evaluate[A Action](env func(seed uint64) Env[A], seed uint64, policy Policy, episodes int) (float64, error) {
	return evaluate(context.Background(), worlds(env), seed, policy, episodes)
}

func evaluate(ctx context.Context, make maker, seed uint64, policy Policy, episodes int) (mean float64, err error) {
	life, end := context.WithCancel(ctx) // of the environment
	defer end()
	l, err := newLoop(life, make, seed, policy, nil)
	if err != nil {
		return 0, err
	}
	for steps := 0; episodes > l.number; steps++ {
		if steps%64 == 0 && ctx.Err() != nil { // an episode may have no end
			return 0, context.Cause(ctx)
		}
		e, err := l.Step()
		if err != nil {
			return 0, err
		}
		if e != nil {
			mean += e.Return
		}
	}
	return mean / float64(episodes), nil
}

// question asks for fresh episodes by the weights of a run, played as well as the policy can.
type question struct {
	Run      string
	Spec     Spec
	Seeds    [2]uint64
	Episodes int
	Stops    bool // at Goal
	Goal     float64
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
	m.Mean, err = evaluate(ctx, e.make, q.Seeds[0], policy, q.Episodes)
	if m.Final = m.Mean; err != nil || !q.Stops || m.Mean < q.Goal {
		return m, err
	}
	m.Final, err = evaluate(ctx, e.make, q.Seeds[1], policy, q.Episodes)
	if m.Reached = m.Final >= q.Goal; m.Reached {
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
