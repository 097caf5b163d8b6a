package grains

import (
	"context"
	"time"

	"github.com/raysys/raysys/internal/grainengine"
)

// Every has f called again and again, d after the call before has returned, for the first time d from now, until stop is called or the
// activation ends: it is deactivated, a panic restarts it (OnPanic), or a Durable one begins anew as a turn of it could not be stored. ctx is that of a method of the grain, or of OnActivate.
//
// Each call of f is a turn of the grain: it never runs beside another turn, may use State and Self, and shows as kind/key.timer in a
// drain. It has no deadline. Of a Durable kind it is a transaction, and a turn that is taken back takes along the timers that
// it began, while those that it stopped go on at their times. It takes no room in the mailbox, and at most one waits: after a pause there is no burst.
// After stop() in a turn none runs, not even one that was due.
//
// Ticks do not keep an activation in memory: an idle grain goes as if it had no timer, and its timers with it. Kinds that shall go on
// ticking are Keep. An error of f is logged as that of a Tell, and the timer goes on. After a panic it goes on too, unless OnPanic
// says otherwise. A d that is not above zero and a nil f are ErrBadOption.
func Every(ctx context.Context, d time.Duration, f func(context.Context) error) (stop func(), err error) {
	return grainengine.Every(ctx, d, false, f)
}

// After is Every for one call of f, d from now.
func After(ctx context.Context, d time.Duration, f func(context.Context) error) (stop func(), err error) {
	return grainengine.Every(ctx, d, true, f)
}
