package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// Branch returns the context of a turn beside that of ctx, which numbers its submissions by itself; ctx where that has
// no runtime.
func Branch(ctx context.Context, i int) context.Context {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return ctx
	}
	b := &Turn{
		job: t.job, kind: t.kind, name: t.name, id: t.id.derive(branchKey, uint64(i)), values: t.values,
		attempt: t.attempt, redraws: t.redraws, class: t.class, attached: t.Attached(), deadline: t.deadline, outer: ctx,
	}
	b.base, b.trunk = b, t
	b.slot.Store(t.base.slot.Load())
	b.up.Store(t)
	return &turnContext{ctx, b}
}

// Rand returns the turn's random source, which is seeded by the turn's id and its Redraws.
func Rand(ctx context.Context) *rand.Rand {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), seedKey))
	}
	b := t.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rnd == nil {
		b.rnd = rand.New(rand.NewPCG(b.id.Hi^seedKey, b.id.Lo+uint64(b.redraws)*redrawKey))
	}
	return b.rnd
}
