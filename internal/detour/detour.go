package detour

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Fake stands in for a function. key is that of the grain. The argument is at arg, and the result goes to result.
type Fake func(ctx context.Context, key string, arg, result unsafe.Pointer) error

// ErrNotFaked is the error of a method that is no fake, of a kind that has one.
var ErrNotFaked = core.Sentinel("testkit.not-faked", "method of a kind with a fake")

// Detour is what the work of a node, or of a kind there, passes. Where it passes nothing there is none.
type Detour struct {
	Filters []raysys.Filter
	Tracing Tracing // nil: nothing has a span
	Fakes   map[*core.Entry]Fake
}

// Of makes a Detour; nil where there is nothing to pass.
func Of(filters []raysys.Filter, tracing Tracing, fakes map[*core.Entry]Fake) *Detour {
	if len(filters)+len(fakes) == 0 && tracing == nil {
		return nil
	}
	return &Detour{filters, tracing, fakes}
}

// OfKind returns what the calls of a kind pass, its own filters among it. has reports whether a method is the kind's. filtered is false for a
// kind that passes no filter of the node.
func (d *Detour) OfKind(has func(*core.Entry) bool, filtered bool, own []raysys.Filter) *Detour {
	if d == nil {
		return Of(own, nil, nil)
	}
	var list []raysys.Filter
	var tracing Tracing
	if filtered {
		list, tracing = append(list, d.Filters...), d.Tracing
	}
	list = append(list, own...)
	for f := range d.Fakes {
		if has(f) {
			return Of(list, tracing, d.Fakes)
		}
	}
	return Of(list, tracing, nil)
}

// Faked reports whether something stands in for functions. Of a Detour of a kind: for one of its methods, so that none of them runs itself.
func (d *Detour) Faked() bool { return d != nil && d.Fakes != nil }

// Fake returns what stands in for the function; nil where that runs itself.
func (d *Detour) Fake(e *core.Entry) Fake {
	f := d.Fakes[e]
	if f == nil && d.Fakes != nil && e.Kind == "method" {
		return func(context.Context, string, unsafe.Pointer, unsafe.Pointer) error {
			return fmt.Errorf("%s: %w: give the Kit a testkit.Fake of it, too", e.Name, ErrNotFaked)
		}
	}
	return f
}

// Run runs the work of c in its span, inside the filters, the first of which is the outermost. waited is for how long
// it has waited to run; 0: that is not known.
func (d *Detour) Run(c *core.Future, w *core.Executed, waited time.Duration, work func(context.Context) error) error {
	inside := func(ctx context.Context) error { return run(ctx, d.Filters, w, work) }
	if d.Tracing != nil {
		if parent, ok := begins(c.Up().Values()); ok {
			return trace(c, d.Tracing, w, parent, waited, inside)
		}
	}
	return inside(c)
}

func run(ctx context.Context, list []raysys.Filter, w *core.Executed, work func(context.Context) error) error {
	if len(list) == 0 {
		return work(ctx)
	}
	s := &step{filter: list[0], of: w}
	return s.run(ctx, core.FutureIn(ctx), func(ctx context.Context) error { return run(ctx, list[1:], w, work) })
}

// step is one run of a filter.
type step struct {
	filter raysys.Filter
	of     *core.Executed

	mu      sync.Mutex // held while next runs; guards the rest
	called  bool
	over    bool // the filter has returned
	misused error
}

func (s *step) run(ctx context.Context, c *core.Future, inner func(context.Context) error) (err error) {
	normal := false
	defer func() { // also where the filter panics
		late := !s.mu.TryLock()
		if late { // the turn must not end before its method
			s.mu.Lock()
		}
		defer s.mu.Unlock()
		s.over = true
		switch {
		case late:
			_ = s.misuse("returned while next ran: wait for it")
		case normal && err == nil && !s.called:
			_ = s.misuse("returned nil and did not call next: return an error to refuse the work")
		}
		if s.misused != nil {
			err = s.misused
		}
	}()
	err = s.filter(ctx, (*raysys.Work)(s.of), func(ctx context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.over:
			return s.misuse("called next after it had returned")
		case s.called:
			return s.misuse("called next twice: raysys.Retries makes another attempt of work that failed")
		case ctx == nil || core.FutureIn(ctx) != c:
			return s.misuse("gave next a context that is not derived from its own")
		}
		s.called = true
		return inner(ctx)
	})
	normal = true
	return err
}

// misuse says what the filter has done wrong, and has the work fail with the first of that.
func (s *step) misuse(what string) error {
	name := "?"
	if f := runtime.FuncForPC(reflect.ValueOf(s.filter).Pointer()); f != nil {
		name = f.Name()
	}
	err := fmt.Errorf("%w %s, around %s: it %s", raysys.ErrFilter, name, s.of.Name(), what)
	if s.misused == nil {
		s.misused = err
	}
	return err
}
