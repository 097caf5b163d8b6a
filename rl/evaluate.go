package rl

import (
	"context"
	"math"
)

// Evaluate plays episodes in an environment of the given seed, and returns their mean return. The policy acts as well as it can; nil acts at random.
func Evaluate[A Action](env func(seed uint64) Env[A], seed uint64, policy Policy, episodes int) (float64, error) {
	t, err := evaluate(context.Background(), worlds(env), seed, policy, math.MaxInt, func(t *tally) bool { return t.episodes < episodes })
	if err != nil {
		return 0, err
	}
	return t.mean(), nil
}

// tally has the episodes that were played.
type tally struct {
	sum             float64 // of their returns
	episodes, steps int
	longest         int  // steps of one
	cut             bool // the last one had not ended: its return is that so far
}

func (t *tally) add(e Episode) {
	t.sum += e.Return
	t.episodes++
	t.longest = max(t.longest, e.Steps)
}

func (t *tally) mean() float64 { return t.sum / float64(t.episodes) }

// within reports whether one more episode, as long as the longest so far, is within so many episodes and steps. The first one always is.
func (t *tally) within(episodes, steps int) bool {
	return t.episodes == 0 || t.episodes < episodes && t.steps+t.longest <= steps
}

// evaluate plays episodes, as long as more says so. One that has not ended after so many steps as most says is cut, and is the last one.
func evaluate(ctx context.Context, make maker, seed uint64, policy Policy, most int, more func(*tally) bool) (t tally, err error) {
	life, end := context.WithCancel(ctx) // of the environment
	defer end()
	l, err := newLoop(life, make, seed, policy, nil)
	if err != nil {
		return t, err
	}
	late := newLateness("an evaluation")
	for l.on || more(&t) {
		if t.steps%64 == 0 {
			if ctx.Err() != nil { // an episode may have no end
				return t, context.Cause(ctx)
			}
			late.sayOnce(ctx, l)
		}
		e, err := l.Step()
		if err != nil {
			return t, err
		}
		t.steps++
		if e != nil {
			t.add(*e)
		} else if l.now.Steps >= most {
			t.add(l.now)
			t.cut = true
			return t, nil
		}
	}
	return t, nil
}

// question asks for fresh episodes by the weights of a run, played as well as the policy can.
type question struct {
	Run      string
	Spec     Spec
	Seeds    [2]uint64
	Episodes int // at most, unless their mean reaches the Goal
	Steps    int // that they may make together; the first one is played to its end
	Most     int // steps of an episode that has no bound
	Stop     int // episodes whose mean has to reach the Goal; 0: there is none
	Goal     float64
}

// measured is the outcome.
type measured struct {
	Mean    float64
	Final   float64 // of the last episodes that were played
	Reached bool
	Weights Weights // that reached the goal
	Steps   int     // of the environment
	Counted int     // of these, those that count to what evaluations may make: those that confirm a goal do not
	Longest int     // steps of an episode
}

var unmeasured = measured{Mean: math.NaN()}

// measure plays a few episodes. Where their mean reaches the goal it goes on to those that the Stop asks for, and looks at the mean again whenever there are
// twice as many: most that miss the goal are found out early. A mean that reaches it may do so by luck, and a run looks for it often: so as many episodes
// more have to reach it too.
func (e *Experiment) measure(ctx context.Context, w Weights, q question) (m measured, err error) {
	policy, err := e.agent.Policy(q.Spec)
	if err == nil {
		err = policy.Load(w)
	}
	if err != nil {
		return m, err
	}
	most := q.Most
	if q.Spec.MaxSteps > 0 {
		most = math.MaxInt
	}
	look := 0 // at so many episodes; 0: the few are played
	t, err := evaluate(ctx, e.make, q.Seeds[0], policy, most, func(t *tally) bool {
		if look == 0 && t.within(q.Episodes, q.Steps) {
			return true
		}
		if look == 0 {
			m.Counted, look = t.steps, t.episodes
		}
		if t.episodes == look {
			look *= 2
			return t.mean() >= q.Goal && t.episodes < q.Stop
		}
		return t.episodes < q.Stop
	})
	if err != nil {
		return m, err
	}
	m.Mean, m.Final, m.Steps, m.Longest = t.mean(), t.mean(), t.steps, t.longest
	if m.Counted == 0 { // one of the few was cut
		m.Counted = t.steps
	}
	if q.Stop == 0 || t.cut || t.episodes < q.Stop || m.Mean < q.Goal {
		return m, nil
	}
	t, err = evaluate(ctx, e.make, q.Seeds[1], policy, most, func(t *tally) bool { return t.episodes < q.Stop })
	if err != nil {
		return m, err
	}
	m.Final, m.Steps, m.Longest = t.mean(), m.Steps+t.steps, max(m.Longest, t.longest)
	if m.Reached = !t.cut && m.Final >= q.Goal; m.Reached {
		m.Weights = w
	}
	return m, nil
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
