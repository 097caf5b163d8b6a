package raysys

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// Branch returns a context for one of several goroutines that submit within one turn. Ids count submissions in
// program order; goroutines have none between them, so each takes a Branch with its own i and the ids stay the same
// in every run. Two with the same i under one ctx submit under the same ids: take another i for each. Without a runtime in ctx it returns ctx.
func Branch(ctx context.Context, i int) context.Context { return core.Branch(ctx, i) }

// Rand returns the turn's random source, seeded by the id of the task, grain call or driver, so that a re-run draws
// the same numbers: also an attempt after the node was lost, and one that makes a lost value again. An attempt after a
// failure that RetryIf accepted draws others; what it submits has the ids of before, and draws what it drew. It is not safe for concurrent use: goroutines take a Branch each. Without a runtime in ctx it is
// seeded by the clock.
func Rand(ctx context.Context) *rand.Rand { return core.Rand(ctx) }

// Attempt returns which attempt runs under ctx, from 1: of a task, or of a grain call with Retries. A task that ran 3 times
// was lost with its node, or failed and was accepted by RetryIf, twice. It is 0 without a runtime in ctx.
func Attempt(ctx context.Context) int { return core.AttemptOf(ctx) }

// Leaving returns a channel that is closed when the node on which the turn of ctx runs begins to drain: it got
// SIGTERM, or an operator drains it. A long task then saves what it has, and returns ErrLeaving; a grain's long turn
// comes to its end. Work that goes on has as long as LeavesIn says. After a drain that was cancelled a later call
// returns another channel. It is nil, on which a receive waits for ever, in a process without a cluster and without
// a turn in ctx.
func Leaving(ctx context.Context) <-chan struct{} {
	if l := leaveOf(ctx); l != nil {
		return l.Begins()
	}
	return nil
}

// LeavesIn returns how long the turn of ctx may still run, where its node drains: what is left of the node's Grace
// (system.Config, RAYSYS_GRACE). It is 0 when that is over, and for a drain without an end, as one of testkit.
// leaving is false on a node that stays, also after a drain that was cancelled.
func LeavesIn(ctx context.Context) (left time.Duration, leaving bool) {
	if l := leaveOf(ctx); l != nil {
		return l.Left()
	}
	return 0, false
}

func leaveOf(ctx context.Context) *core.Leave {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	return t.Job().Leave
}
