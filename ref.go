package raysys

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// Ref is a reference to a value that exists now or later: the result of a task, of a grain call or of Put. It is
// one word and may be copied. The zero Ref refers to nothing, and Get on it returns ErrInvalidRef.
type Ref[T any] core.Ref[T]

// Handle is a reference that is passed on without being waited for: a Ref inside a task's argument is a dependency,
// a Handle is a value.
type Handle[T any] core.Handle[T]

// Get returns the value, waiting for it if need be. The error is typed: a *TaskError when user code failed, or one
// that matches ErrCancelled, ErrDeadline, ErrReleased, ErrCycle and so on. When ctx ends first, Get returns its end
// and the work goes on. While it waits, a task's CPU is given back.
//
// ctx must come from a runtime (else ErrNoRuntime). With the caller's own context Get may run work that has not
// started on the calling goroutine; with a derived one (context.WithTimeout) it always returns in time.
func (r Ref[T]) Get(ctx context.Context) (T, error) { return core.Get(ctx, core.Ref[T](r)) }

// Handle returns r as a value to pass on.
func (r Ref[T]) Handle() Handle[T] { return Handle[T]{Link: r.Link} }

// Ref returns the reference that h carries.
func (h Handle[T]) Ref() Ref[T] { return Ref[T]{Link: h.Link} }

// ID returns the id of the submission that produces the value; zero for Ready values.
func (r Ref[T]) ID() TaskID { return core.IDOf(r.Link) }

// IsZero reports whether r refers to nothing.
func (r Ref[T]) IsZero() bool { return core.FutureOf(r.Link) == nil }

// Cancel ends the work behind r, also when it runs already, and everything it submitted (but for Detached work).
// The future settles at once with ErrCancelled; running code learns of it through its context. It reports whether
// the future was still open.
//
// A task that is Detached with a name ends by Cancel of any reference to it: of the one that Lookup gave, of one that joined it,
// on any node, also when its submitter is dead. Cancel then returns when the cluster's store has it, or after 5 s without the
// store; its bool says, as ever, that this reference was open.
func (r Ref[T]) Cancel() bool { return core.CancelOf(r.Link) }

// Release says that this program needs the value no longer. Later Gets return ErrReleased; tasks that were given the
// reference before still read it, and the memory is freed after the last of them. Inside one process Release is
// optional: the garbage collector frees what nothing refers to.
func (r Ref[T]) Release() { core.FutureOf(r.Link).Release() }

// String shows the id and the state, for logs.
func (r Ref[T]) String() string { return shownRef(r.Link) }

func shownRef(l core.Link) string { return fmt.Sprintf("ref(%s %s)", core.IDOf(l), phaseOf(l)) }
