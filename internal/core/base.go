package core

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
)

// base is what a turn shares with the turns derived from it: the work that runs, and what it has done and waits for. It
// is one allocation with its turn.
type base struct {
	turn          Turn // the one that is derived from none
	name          string
	kind          TurnKind
	remote        bool        // it stands for a turn of another node
	racy          atomic.Bool // goroutines submitted at the same time, so the order is not the program's
	redraws       uint32      // see Redraws
	leaves        uint32      // see Leaves
	attempt       int
	seq           atomic.Uint64            // submissions so far
	callers       []TaskID                 // of a turn of another node: Callers there
	slot          atomic.Pointer[CPUSlot]  // the CPU it runs on
	attached      any                      // what the engine gave with the turn: the activation of a grain turn
	attachedLater atomic.Pointer[any]      // what Attach stored, which replaces attached
	recipe        atomic.Pointer[any]      // of a task's turn: how its value can be made again (rebuild.go)
	finals        atomic.Pointer[finals]   // what waits until it cannot run again (final.go)
	effects       atomic.Pointer[Effect]   // SetEffects
	devices       atomic.Pointer[[]string] // SetDevices
	failed        atomic.Pointer[failure]  // outcome of the future this turn computes
	block         atomic.Pointer[Blocked]  // what it waits for
	pins          []*Future                // guarded by turn.mu, as is rnd
	rnd           *rand.Rand
}

// newBase returns the turn of b.
func newBase(b *base) *Turn {
	b.turn.base = b
	return &b.turn
}

// SetKind makes it the turn of a call on that activation.
func (b *base) SetKind(k TurnKind, activation any) { b.kind, b.attached = k, activation }

// Attach makes x what Attached returns, of a task's turn. Other goroutines may call Attached meanwhile.
func (b *base) Attach(x any) { b.attachedLater.Store(&x) }

// Detach ends Attach: the turn keeps nothing of what the engine gave.
func (b *base) Detach() { b.attachedLater.Store(&nothing) }

var nothing any

// Next takes the next number of the turn's sequence.
func (b *base) Next() uint64 {
	n := b.seq.Load()
	if b.seq.CompareAndSwap(n, n+1) {
		return n
	}
	b.racy.Store(true)
	return b.seq.Add(1) - 1
}

// NextN takes n numbers and returns the first.
func (b *base) NextN(n int) uint64 { return b.seq.Add(uint64(n)) - uint64(n) }

// Submitted is how many submissions t has made.
func Submitted(t *Turn) uint64 { return t.seq.Load() }

// Kind says what the turn runs.
func (b *base) Kind() TurnKind { return b.kind }

// Name is the task's name, or kind/key.method.
func (b *base) Name() string { return b.name }

// Attached is what an engine keeps with the turn: the activation of a grain turn, the dependencies of a task's.
func (b *base) Attached() any {
	if x := b.attachedLater.Load(); x != nil {
		return *x
	}
	return b.attached
}

// Slot is the CPU the turn runs on, nil for one that holds none.
func (b *base) Slot() *CPUSlot { return b.slot.Load() }

// Redraws counts the attempts before this one that failed by the program's fault. One after a lost node draws the same
// random numbers as that.
func (b *base) Redraws() uint32 { return b.redraws }

// Leaves counts the attempts before this one that gave way to the drain of their node.
func (b *base) Leaves() uint32 { return b.leaves }

// CountLeave counts the attempt of the turn for Leaves of those that follow, and returns Leaves.
func (b *base) CountLeave() (before uint32) {
	b.leaves++
	return b.leaves - 1
}

// AttemptOf is raysys.Attempt. A call of a grain with Retries is several, below a turn that has the number and their name.
func AttemptOf(ctx context.Context) int {
	t, _, err := TurnOf(ctx)
	if err != nil {
		return 0
	}
	if up := t.base.turn.up.Load(); t.kind == TurnGrain && up != nil && up.kind != TurnGrain && up.name == t.name {
		return max(up.Attempt(), 1)
	}
	return max(t.Attempt(), 1)
}

// Attempt counts from 1.
func (b *base) Attempt() int { return b.attempt }

// Deterministic reports whether the turn's submissions were made in program order: false once two goroutines
// submitted at the same time on one context without Branch.
func (b *base) Deterministic() bool { return !b.racy.Load() }

// Failed reports whether the work of the turn has failed, or was given up.
func (b *base) Failed() bool { return b.failed.Load() != nil }

// pinned reports whether the turn holds c for reading after a Release.
func (b *base) pinned(c *Future) bool {
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	for _, p := range b.pins {
		if p == c {
			return true
		}
	}
	return false
}

// Pin keeps the futures readable for this turn although the program releases them, until the turn ends.
func (b *base) Pin(futures []*Future) {
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	for _, c := range futures {
		if c.valueType() != nil {
			c.pin()
			b.pins = append(b.pins, c)
		}
	}
}

// SetBlocked records that the turn waits for c while it runs c in place, and returns what undoes it. For engines. A grain's
// turn lets others in meanwhile, as it does when it parks: c may call the grain.
func (b *base) SetBlocked(x *Blocked, c *Future) (undo *Blocked) {
	x.on, x.need = []*Future{c}, 1
	undo = b.block.Swap(x)
	if b.kind == TurnGrain {
		b.turn.job.Runtime.Block(&b.turn)
	}
	return undo
}

// RestoreBlocked ends SetBlocked.
func (b *base) RestoreBlocked(prev *Blocked) {
	if b.kind == TurnGrain {
		b.turn.job.Runtime.Unblock(&b.turn)
	}
	b.block.Store(prev)
}

// Devices are the UUIDs of the devices that the turn's work holds.
func (b *base) Devices() []string {
	if list := b.devices.Load(); list != nil {
		return append([]string(nil), *list...)
	}
	if h, ok := b.attached.(Holder); ok {
		return h.Devices()
	}
	return nil
}

// SetDevices is called before the function of a task that holds devices.
func (b *base) SetDevices(list []string) { b.devices.Store(&list) }

// IsBlocked reports whether the turn waits.
func (b *base) IsBlocked() bool { return b.block.Load() != nil }

// Recipe is the recipe of the value that the turn computes.
func (b *base) Recipe() any {
	if r := b.recipe.Load(); r != nil {
		return *r
	}
	return nil
}

// SetRecipe keeps r for as long as the value that the turn computes can be asked for.
func (b *base) SetRecipe(r any) { b.recipe.Store(&r) }

// SetEffects notes that the turn, or what it submitted, has done what must not be done twice. Its value is not made again.
func (b *base) SetEffects(by *Effect) {
	for ; b.effects.Load() == nil; b = b.turn.trunk.base {
		b.effects.Store(by)
		if b.turn.trunk == nil {
			return
		}
	}
}

// Effects returns what SetEffects was first called with, nil if it was not called.
func (b *base) Effects() *Effect { return b.effects.Load() }
