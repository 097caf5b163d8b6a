package raysys

import (
	"context"
	"math/rand/v2"
	"time"
)

// Branch returns a context for one of several goroutines that submit within one turn. Ids count submissions in
// program order; goroutines have none between them, so each takes a Branch with its own i and the ids stay the same
// in every run. Without a runtime in ctx it returns ctx.
func Branch(ctx context.Context, i int) context.Context {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return ctx
	}
	b := &Turn{
		job: t.job, kind: t.kind, name: t.name, id: t.id.derive(branchKey, uint64(i)), values: t.values,
		attempt: t.attempt, host: t.Host(), deadline: t.deadline, outer: ctx,
	}
	b.base, b.trunk = b, t
	b.slot.Store(t.base.slot.Load())
	b.up.Store(t)
	return &turnContext{ctx, b}
}

// Rand returns the turn's random source, seeded by the id of the task, grain call or driver, so that a re-run draws
// the same numbers. It is not safe for concurrent use: goroutines take a Branch each. Without a runtime in ctx it is
// seeded by the clock.
func Rand(ctx context.Context) *rand.Rand {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), seedKey))
	}
	b := t.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rnd == nil {
		b.rnd = rand.New(rand.NewPCG(b.id.Hi^seedKey, b.id.Lo))
	}
	return b.rnd
}
