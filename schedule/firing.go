package schedule

import (
	"context"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// fired is what a firing carries.
var fired = raysys.NewContextKey[firedAs](core.FiredKey)

type firedAs struct {
	Name   string
	Due    int64
	Missed uint64
}

// Firing is one firing of a schedule.
type Firing struct {
	Name string
	Due  time.Time // when it was due, without jitter; for one of Run when that was asked for
	// Missed is how many times were missed since the firing before: one firing tells of each missed time.
	Missed int
}

// Fired returns the firing by which a call or a task was made, in that and in what it calls. Each try of a firing has the
// same Due and Missed. So a method of a Durable kind that counts 1 + Missed counts each due time once, unless the schedule
// has CatchUp(0) or the method fails.
func Fired(ctx context.Context) (Firing, bool) {
	f, ok := fired.From(ctx)
	if !ok {
		return Firing{}, false
	}
	return Firing{f.Name, time.Unix(0, f.Due).UTC(), int(f.Missed)}, true
}
