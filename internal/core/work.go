package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// Work is the producing side of a future: a task or a grain call. It may implement further interfaces, which a Future
// looks for with type assertions when the moment comes:
//
//	Droppable   it has settled, and had not started   Future.Fail
//	Limited     how long it may take, for messages    a deadline's alarm
//	Describer   what its Turn is                      when its Turn is made
//	Stoppable   it was cancelled                      Future.Cancel
//	Remaker     its value is lost                     Future.Rebuild
//	lazy        it starts for its first waiter        Subscribe
//	sourced     its value comes from a Source         ID, SourceOf
//	typed       the Result around its Future          wherever the value is concerned; a Work without it has none here
//
// Interfaces besides those of Work are found in the same way: an Objects may be Names, a Source may be Located, a
// Viewer or a Remaker.
type Work interface {
	// Name is the function, or kind/key.method.
	Name() string
	// Help runs the work on the calling goroutine, which belongs to turn t and would otherwise park, when it has not
	// started and may run there. It reports whether it ran.
	Help(t *Turn) bool
	// Expires is when the work is given up, on the runtime's clock; 0 for never.
	Expires() int64
	// Waits says what keeps work from starting: the turns that it waits behind, and the futures it needs.
	Waits() (behind []*Turn, needs []*Future)
	// Break is asked of work that is part of a cycle of waits. It fails or starts the work and returns true, or
	// returns false when the work is not what can give way. chain is the cycle in words.
	Break(chain []string) bool
}

// Droppable is a Work that learns that its future has settled before it started. queued is false while it was held.
type Droppable interface{ Dropped(queued bool) }

// Limited is a Work that knows how long it may take, for the message of its deadline; 0 where it does not know.
type Limited interface{ Limit() time.Duration }

// Describer is a Work whose Turn is not that of a task: Describe says what it is, before other goroutines see it.
type Describer interface{ Describe(t *Turn) }

// Stoppable is a Work that runs on another node: Stopped is called once after the future was cancelled here, on the
// goroutine that cancelled it, and must not block.
type Stoppable interface{ Stopped() }

// lazy is a Work that starts for its first waiter.
type lazy interface{ wanted() }

// sourced is a Work whose value comes from a Source, which also knows its id.
type sourced interface{ source() Source }

// The works of this package that are of another kind than a task or a grain call.
var (
	_ Work      = untypedWork{}
	_ Work      = (*object)(nil)
	_ Work      = (*fetched)(nil)
	_ typed     = (*fetched)(nil)
	_ lazy      = (*fetched)(nil)
	_ sourced   = (*fetched)(nil)
	_ Stoppable = (*fetched)(nil)
	_ lazy      = (*showing)(nil)
	_ sourced   = (*showing)(nil)
	_ Stoppable = (*showing)(nil)
)

// Executed is what a filter is told of the work that it runs around: raysys.Work is made of it.
type Executed struct {
	name, key   string
	arg, result func() any
}

// NewExecuted makes that of work without a result so far. arg returns what Arg does.
func NewExecuted(name, key string, arg func() any) *Executed {
	return &Executed{name: name, key: key, arg: arg}
}

// Name is the name of the task, or kind.method.
func (x *Executed) Name() string { return x.name }

// Key is the key of the grain.
func (x *Executed) Key() string { return x.key }

// Arg is that of raysys.Work.
func (x *Executed) Arg() any { return x.arg() }

// Result is that of raysys.Work.
func (x *Executed) Result() any {
	if x.result == nil {
		return nil
	}
	return x.result()
}

// Returned notes that the work has returned the value of c.
func (x *Executed) Returned(c *Future) {
	if t := c.valueType(); !t.Nothing() {
		x.result = func() any { return c.pointer(t) }
	}
}

// Branch returns the context of a turn beside that of ctx, which numbers its submissions by itself; ctx where that has
// no runtime.
func Branch(ctx context.Context, i int) context.Context {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return ctx
	}
	b := newBase(&base{
		turn: Turn{
			job: t.job, id: t.id.derive(branchKey, uint64(i)), class: t.class, trunk: t, outer: ctx, deadline: t.deadline, values: t.values,
		},
		name: t.name, kind: t.kind, attempt: t.attempt, redraws: t.redraws, attached: t.Attached(),
	})
	b.slot.Store(t.slot.Load())
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
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	if b.rnd == nil {
		b.rnd = rand.New(rand.NewPCG(b.turn.id.Hi^seedKey, b.turn.id.Lo+uint64(b.redraws)*redrawKey))
	}
	return b.rnd
}
