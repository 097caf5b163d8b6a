package core

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A task's record is its context.Context. It carries the runtime, the turn, the deadline and the declared values, and
// nothing else: a value set with context.WithValue around Go is not there, in one process as on a cluster.

// FutureIn returns the future of the work that ctx is the context of, or is derived from; nil where it is a driver's, or a hook's.
func FutureIn(ctx context.Context) *Future {
	if c, ok := ctx.(*Future); ok {
		return c
	}
	c, _ := ctx.Value(futureKey{}).(*Future)
	return c
}

func contextErr(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	default:
		return context.Canceled
	}
}

// driverContext is the context of a driver's turn. It carries the values and the deadline of the caller's context, and
// ends with that or with the node, whichever ends first.
type driverContext struct{ turn *Turn }

// NewContext returns the context of a driver's turn.
func NewContext(t *Turn) context.Context { return &driverContext{t} }

func (c *driverContext) Turn() *Turn                 { return c.turn }
func (c *driverContext) Deadline() (time.Time, bool) { return c.turn.outer.Deadline() }
func (c *driverContext) Done() <-chan struct{}       { return c.turn.innerContext().Done() }

func (c *driverContext) Err() error {
	if err := c.turn.outer.Err(); err != nil {
		return err
	}
	return contextErr(c.turn.Cancelled())
}

func (c *driverContext) Value(key any) any {
	switch key.(type) {
	case turnKey:
		return c.turn
	case valuesKey:
		return c.turn.values
	}
	// The inner context first: the standard library's look-up of the enclosing cancelCtx has to find that of Done.
	if v := c.turn.innerValue(key); v != nil {
		return v
	}
	return c.turn.outer.Value(key)
}

// turnContext is the context of a branch, which ends with the context that it was made from.
type turnContext struct {
	context.Context
	turn *Turn
}

func (c *turnContext) Turn() *Turn { return c.turn }

func (c *turnContext) Value(key any) any {
	switch key.(type) {
	case turnKey:
		return c.turn
	case valuesKey:
		return c.turn.values
	}
	return c.Context.Value(key)
}

// hookContext is the context of a turn that has neither a record nor a caller: a grain's hook.
type hookContext struct{ turn *Turn }

// HookContext returns the context of t.
func HookContext(t *Turn) context.Context { return hookContext{t} }

func (c hookContext) Turn() *Turn                 { return c.turn }
func (c hookContext) Deadline() (time.Time, bool) { return c.turn.deadlineTime() }
func (c hookContext) Done() <-chan struct{}       { return c.turn.innerContext().Done() }
func (c hookContext) Err() error                  { return c.turn.contextErr() }

func (c hookContext) Value(key any) any {
	switch key.(type) {
	case turnKey:
		return c.turn
	case valuesKey:
		return c.turn.values
	}
	return c.turn.innerValue(key)
}

// Loggers is a Runtime whose work has loggers.
type Loggers interface {
	// Logger returns that of a turn.
	Logger(t *Turn) *slog.Logger
}

// Logger is raysys.Logger. It makes no turn for a context that was derived, as it submits nothing.
func Logger(ctx context.Context) *slog.Logger {
	var t *Turn
	if s, ok := ctx.(TurnSource); ok {
		t = s.Turn()
	} else if ctx != nil {
		t, _ = ctx.Value(turnKey{}).(*Turn)
	}
	return LoggerOf(t)
}

// LoggerOf is Logger for a turn, which may be nil.
func LoggerOf(t *Turn) *slog.Logger {
	if t != nil {
		if r, ok := t.job.Runtime.(Loggers); ok {
			return r.Logger(t)
		}
	}
	return slog.Default()
}
