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

// look says it once.
func (l *lateness) look(ctx context.Context, loop *Loop) {
	if l.said || time.Since(l.began) < lateAfter {
		return
	}
	l.said = true
	logOf(ctx).Warn("rl: "+l.what+" has not ended: an environment whose episodes may have no end needs a bound, such as Truncated after 1,000 steps",
		"environment", loop.spec.Name, "seed", loop.seed, "episode", loop.number, "step", loop.now.Steps, "after", time.Since(l.began).Round(time.Second))
}
