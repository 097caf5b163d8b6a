package raysys

import (
	"context"

	"github.com/raysys/raysys/internal/core"
)

// Filter runs around a task or a call of a grain, on the node that runs it, and calls next for the work itself. Give filters to
// system.Config, for all work, or to grains.Filter, for one kind. It may
//
//   - refuse the work: it returns an error and does not call next;
//   - give next a context derived from its own: with ContextKey values, which go to all that is below, or an earlier end;
//   - look at the error of next and return another, or measure the time.
//
// What it returns is the outcome, and its panic is the work's. It passes each attempt of the work, on the goroutine of that, so in the
// turn of the grain, and within the transaction where the kind is Durable. It sees the turn of a grains.LaterMethod, not the answer
// that comes later. It does not see OnActivate and OnDeactivate, ticks of timers, calls that get the reply of an earlier run, and the kinds
// that packages of raysys define.
//
// next is called once at most, before the filter returns. A filter that calls it twice or late, that gives it a context of other
// work, or returns nil and has not called it, fails the work with ErrFilter.
type Filter func(ctx context.Context, w *Work, next func(context.Context) error) error

// Work is what a Filter runs around. It is of use until the filter returns.
type Work core.Executed

// Name is the name of the task, or kind.method.
func (w *Work) Name() string { return (*core.Executed)(w).Name() }

// Key is the key of the grain, empty for a task.
func (w *Work) Key() string { return (*core.Executed)(w).Key() }

// Arg points to the argument: it is a *A, to be read and not to be changed. It is nil for work that has none, and for a task of several
// parameters a []any of pointers to each.
func (w *Work) Arg() any { return (*core.Executed)(w).Arg() }

// Result points to the result, a *R, once next has returned nil, and may be changed until the filter returns. It is nil before
// that, for work without a result, and for a call that its LaterMethod keeps.
func (w *Work) Result() any { return (*core.Executed)(w).Result() }
