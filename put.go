package raysys

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// Put makes v an object that tasks and grains can refer to. v is handed over: do not change it afterwards (strict mode
// of the testkit finds a program that does). Put of a value with pointers costs one allocation; bytes are made only
// when the object must travel. A value above 64 KiB counts against the node's object store: Put waits while that makes
// room, and the reference fails with ErrStoreFull when there is none to make.
//
// The options ask for more than that: Replicas, Named and OnDisk. Then Put returns when the object has all of it.
func Put[T any](ctx context.Context, v T, opts ...PutOption) Ref[T] {
	return Ref[T](core.Put(ctx, v, opts))
}

// Ready turns a value into a reference, for On of a task that takes some parameters by reference and some by value.
// It needs no context, and its id is zero.
func Ready[T any](v T) Ref[T] { return Ref[T](core.Ready(v)) }

// Phase is what is known of a future without fetching it.
type Phase uint8

// The phases of a future.
const (
	PhasePending   Phase = iota // not started, or running
	PhaseReady                  // Get returns a value
	PhaseFailed                 // Get returns an error of the work
	PhaseLost                   // the value is gone and cannot be rebuilt
	PhaseCancelled              // the work was cancelled
	PhaseReleased               // the program released the reference
)

func (p Phase) String() string {
	switch p {
	case PhasePending:
		return "pending"
	case PhaseReady:
		return "ready"
	case PhaseFailed:
		return "failed"
	case PhaseLost:
		return "lost"
	case PhaseCancelled:
		return "cancelled"
	case PhaseReleased:
		return "released"
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// PhaseOf tells how the future behind r stands, without waiting and without fetching the value. The zero Ref is
// pending for ever.
func PhaseOf[T any](r Ref[T]) Phase { return phaseOf(r.Link) }

func phaseOf(l core.Link) Phase { return Phase(core.FutureOf(l).Phase()) }
