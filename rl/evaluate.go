package rl

import "context"

// Evaluate plays episodes in an environment of the given seed, and returns their mean return. The policy acts as well as it can; nil acts at random.
func Evaluate[A Action](env func(seed uint64) Env[A], seed uint64, policy Policy, episodes int) (float64, error) {
	return evaluate(context.Background(), worlds(env), seed, policy, episodes)
}

func evaluate(ctx context.Context, make maker, seed uint64, policy Policy, episodes int) (mean float64, err error) {
	l, err := newLoop(ctx, make, seed, policy, nil)
	if err != nil {
		return 0, err
	}
	for range episodes {
		e, err := l.Episode()
		if err != nil {
			return 0, err
		}
		mean += e.Return
	}
	return mean / float64(episodes), nil
}

// The parts of a run take what is random from seeds of their own: actors from 0 on, and these.
const (
	seedRandom = 1<<62 + iota
	seedEvaluate
	seedFinal
)

// seedOf is the seed of a part of the run of a seed: the finalizer of SplitMix64 over both, so that runs of near seeds share nothing.
func seedOf(run, part uint64) uint64 {
	z := run*0x9e3779b97f4a7c15 + part
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
