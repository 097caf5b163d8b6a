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
	// The inner context first: the standard library's look-up of the enclosing cancelCtx has to find that of Done.
	if v := (ownContext{c.turn}).Value(key); v != nil {
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

// ownContext is the context of a turn by itself: that of a grain's hook, which has neither a record nor a caller, and
// what a Future answers once it has a turn.
type ownContext struct{ turn *Turn }

// HookContext returns the context of t, the turn of a hook.
func HookContext(t *Turn) context.Context { return ownContext{t} }

func (c ownContext) Turn() *Turn           { return c.turn }
func (c ownContext) Done() <-chan struct{} { return c.turn.innerContext().Done() }

func (c ownContext) Deadline() (time.Time, bool) {
	at := c.turn.Until()
	if at == 0 {
		return time.Time{}, false
	}
	return time.Now().Add(time.Duration(at - c.turn.job.Runtime.Now())), true
}

func (c ownContext) Err() error {
	if c.turn.ended.Load() {
		return context.Canceled
	}
	return contextErr(c.turn.Cancelled())
}

// Value also answers the standard library's own look-ups (the enclosing cancelCtx), so that context.WithCancel on a
// task's context starts no goroutine and context.Cause works. A turn that has ended gets its standard context now if
// it had none before; an end that was only pulled so far is passed on to it, since Cause must follow Err.
func (c ownContext) Value(key any) any {
	t := c.turn
	switch key.(type) {
	case turnKey:
		return t
	case valuesKey:
		return t.values
	}
	t.mu.Lock()
	inner, stop := t.inner, t.stop
	t.mu.Unlock()
	if err := t.Cancelled(); err != nil && inner != nil {
		t.cancel(err)
		if stop != nil { // the one whose cancel came first may not have called it yet
			stop(err)
		} else {
			ownContext{t.endless()}.Value(key)
		}
	} else if inner == nil && (err != nil || t.ended.Load()) {
		inner = t.innerContext()
	}
	if inner == nil {
		return nil
	}
	return inner.Value(key)
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
	if t == nil {
		return LoggerOf(t)
	}
	return traceLogger(ctx, LoggerOf(t))
}

// traceLogger adds the trace to the lines of a logger, for work that is in one.
func traceLogger(ctx context.Context, l *slog.Logger) *slog.Logger {
	v, _ := ValueOf(ctx, TraceKey)
	if parent, _ := v.(string); len(parent) == len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01") {
		return l.With("trace_id", parent[3:35])
	}
	return l
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
