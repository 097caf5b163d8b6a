package detour

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Tracing is that of package system.
type Tracing interface {
	Parent(ctx context.Context) string
	Begin(ctx context.Context, w *raysys.Work, parent string, waited time.Duration) (context.Context, func(error))
}

// Guarded returns a Tracing that does what t does, of whose faults the work notices nothing: where t panics, or returns
// a context that is not derived from that of the work, the work has no span, and tell is told.
func Guarded(t Tracing, tell func(method string, fault error)) Tracing {
	if t == nil {
		return nil
	}
	return &guarded{t, tell}
}

type guarded struct {
	of   Tracing
	tell func(method string, fault error)
}

// catch is deferred around a call of the program's Tracing.
func (g *guarded) catch(method string) {
	if p := recover(); p != nil {
		g.tell(method, &raysys.TaskError{
			Function: method, Err: &raysys.PanicError{Value: core.SoundPanic(p)}, Stack: debug.Stack(),
		})
	}
}

func (g *guarded) Parent(ctx context.Context) (parent string) {
	defer g.catch("Tracing.Parent")
	return g.of.Parent(ctx)
}

func (g *guarded) Begin(
	ctx context.Context, w *raysys.Work, parent string, waited time.Duration,
) (spanned context.Context, end func(error)) {
	spanned, end = ctx, func(error) {} // where it panics
	defer g.catch("Tracing.Begin")
	own, ended := g.of.Begin(ctx, w, parent, waited)
	if ended != nil {
		end = func(err error) {
			defer g.catch("end of Tracing.Begin")
			ended(core.Sound(err))
		}
	}
	if own == nil || core.FutureIn(own) != core.FutureIn(ctx) {
		g.tell("Tracing.Begin", errForeign)
		return ctx, end
	}
	return own, end
}

var errForeign = errors.New("the context that it returned is not derived from the one that it got")

// begins reports whether work below these values has a span: it is in a trace that is sampled, or a schedule has made
// it, and whether it begins one is not decided.
func begins(vs *core.Values) (parent string, ok bool) {
	if vs == nil {
		return "", false
	}
	if parent, decided := core.TraceOf(vs); decided {
		return parent, parent != ""
	}
	vs.All(func(name string, _ any) bool {
		ok = name == core.FiredKey
		return !ok
	})
	return "", ok
}

// Passes reports whether the work of c passes anything here.
func (d *Detour) Passes(c *core.Future) bool {
	if d == nil {
		return false
	}
	if len(d.Filters) > 0 || d.Fakes != nil {
		return true
	}
	_, ok := begins(c.Up().Values())
	return ok
}

var errGoexit = errors.New("the work ended its goroutine (runtime.Goexit)")

// trace runs work in a span.
func trace(
	c *core.Future, t Tracing, w *core.Executed, parent string, waited time.Duration, work func(context.Context) error,
) (err error) {
	ctx, end := t.Begin(c, (*raysys.Work)(w), parent, waited)
	if parent = t.Parent(ctx); parent == core.NotSampled {
		parent = ""
	}
	ctx = core.WithValue(ctx, core.TraceKey, parent) // what the work submits has one list of values
	normal := false
	defer func() {
		if normal {
			return
		}
		p := recover()
		if p == nil {
			end(errGoexit)
			return
		}
		end(fmt.Errorf("panic: %v", p))
		panic(p) // below are still the frames of the work, for the engine's error
	}()
	err = work(ctx)
	normal = true
	end(err)
	return err
}
