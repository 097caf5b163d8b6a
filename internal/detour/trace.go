package detour

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Tracing is that of package system.
type Tracing interface {
	Parent(ctx context.Context) string
	Begin(ctx context.Context, w *raysys.Work, parent string, waited time.Duration) (context.Context, func(error))
}

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
	ctx = core.WithValue(ctx, core.TraceKey, t.Parent(ctx)) // what the work submits has one list of values
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
