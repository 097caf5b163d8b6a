package core

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A task's record is its context.Context. It carries the runtime, the turn, the deadline and the declared values, and
// nothing else: a value set with context.WithValue around Go is not there, in one process as on a cluster.

// Deadline implements context.Context: the earliest deadline of the work and of everything above it.
func (c *Future) Deadline() (time.Time, bool) { return c.Turn().deadlineTime() }

// Done implements context.Context.
func (c *Future) Done() <-chan struct{} { return c.Turn().innerContext().Done() }

// Err implements context.Context.
func (c *Future) Err() error {
	if t := c.own.Load(); t != nil {
		return t.contextErr()
	}
	if err := contextErr(c.up.Cancelled()); err != nil || !c.turnOver() {
		return err
	}
	return context.Canceled
}

// Value implements context.Context.
func (c *Future) Value(key any) any {
	switch key.(type) {
	case turnKey:
		return c.Turn()
	case valuesKey:
		if t := c.own.Load(); t != nil {
			return t.values
		}
		return c.up.values
	case futureKey:
		return c
	}
	if t := c.own.Load(); t != nil {
		return t.innerValue(key)
	}
	if c.Err() != nil {
		return c.Turn().innerValue(key)
	}
	return nil
}

// FutureIn returns the future of the work that ctx is the context of, or is derived from; nil where it is a driver's, or a hook's.
func FutureIn(ctx context.Context) *Future {
	if c, ok := ctx.(*Future); ok {
		return c
	}
	c, _ := ctx.Value(futureKey{}).(*Future)
	return c
}

// innerValue answers the standard library's own look-ups (the enclosing cancelCtx), so that context.WithCancel on a
// task's context starts no goroutine and context.Cause works. A turn that has ended gets its standard context now if
// it had none before; an end that was only pulled so far is passed on to it, since Cause must follow Err.
func (t *Turn) innerValue(key any) any {
	t.mu.Lock()
	inner, stop := t.inner, t.stop
	t.mu.Unlock()
	if err := t.Cancelled(); err != nil && inner != nil {
		t.cancel(err)
		if stop != nil { // the one whose cancel came first may not have called it yet
			stop(err)
		} else {
			t.endless().innerValue(key)
		}
	} else if inner == nil && (err != nil || t.ended.Load()) {
		inner = t.innerContext()
	}
	if inner == nil {
		return nil
	}
	return inner.Value(key)
}

func (t *Turn) contextErr() error {
	if t.ended.Load() {
		return context.Canceled
	}
	return contextErr(t.Cancelled())
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

func (t *Turn) deadlineTime() (time.Time, bool) {
	at := t.Until()
	if at == 0 {
		return time.Time{}, false
	}
	return time.Now().Add(time.Duration(at - t.job.Runtime.Now())), true
}

// Until returns the earliest deadline of the turn and of everything above it, on the runtime's clock; 0 for none.
func (t *Turn) Until() (at int64) {
	for s := t; s != nil; s = s.above() {
		if s.deadline != 0 && (at == 0 || s.deadline < at) {
			at = s.deadline
		}
		if s.outer != nil {
			if d, ok := s.outer.Deadline(); ok {
				if o := After(t.job.Runtime.Now(), time.Until(d)); at == 0 || o < at {
					at = o
				}
			}
		}
	}
	return at
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
