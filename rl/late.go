package rl

import (
	"context"
	"time"
)

// lateAfter is how long an evaluation, or the first episode of an actor, has until the log says that it has not ended.
const lateAfter = 10 * time.Second

// lateness looks whether a loop ends no episode.
type lateness struct {
	what  string
	began time.Time
	said  bool
}

func newLateness(what string) lateness { return lateness{what: what, began: time.Now()} }

// sayOnce says it once.
func (l *lateness) sayOnce(ctx context.Context, loop *Loop) {
	if l.said || time.Since(l.began) < lateAfter {
		return
	}
	l.said = true
	logOf(ctx).Warn("rl: "+l.what+" has not ended: an environment whose episodes may have no end needs a bound, such as Truncated after 1,000 steps",
		"environment", loop.spec.Name, "seed", loop.seed, "episode", loop.number, "step", loop.now.Steps, "after", time.Since(l.began).Round(time.Second))
}

// hugeReward is what a reward has in no usual environment. A net of float32 learns returns near 1 to 10; far beyond, its loss runs away.
const hugeReward = 1e6

// hugeSaid is the key of warned for huge rewards.
type hugeSaid struct{}

// warnHuge says once of an experiment that its rewards are huge.
func (e *Experiment) warnHuge(ctx context.Context) func(*Loop, float32) {
	return func(l *Loop, reward float32) {
		if _, said := e.warned.LoadOrStore(hugeSaid{}, true); !said {
			logOf(ctx).Warn("rl: rewards are above 1e6, and an agent learns best from returns near 1 to 10: give its Config.RewardScale where it has one, or scale them in the environment",
				"experiment", e.name, "environment", l.spec.Name, "seed", l.seed, "episode", l.number, "step", l.now.Steps, "reward", reward)
		}
	}
}
