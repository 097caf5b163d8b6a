// Package actortest makes the actor systems of tests.
package actortest

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// throttleInterval is below the time for which goleak looks again (half a second): the first dead letter of a system starts
// a goroutine that lives for as long, however soon the system ends. The library's own value is a second.
const throttleInterval = 50 * time.Millisecond

// NewSystem returns an actor system that logs nothing.
func NewSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(throttleInterval),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}
