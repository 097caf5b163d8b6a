package grains

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Func is a typed handle of a method with an argument and a result. Make it once beside its kind, with Method.
type Func[G, A, R any] struct{ m *method[G, A, R] }

// Func0 is the handle of a method without argument, Act of one without result, Act0 of one with neither.
type (
	Func0[G, R any] struct{ f Func[G, none, R] }
	Act[G, A any]   struct{ f Func[G, A, none] }
	Act0[G any]     struct{ f Func[G, none, none] }
)

type none struct{}

// Method makes fn, usually a method expression such as (*Counter).Add, callable under name.
func Method[G, A, R any](k Kind[G], name string, fn func(*G, context.Context, A) (R, error)) Func[G, A, R] {
	return Func[G, A, R]{defineMethod(k, name, fn == nil, fn)}
}

// Method0 is Method for a method without argument.
func Method0[G, R any](k Kind[G], name string, fn func(*G, context.Context) (R, error)) Func0[G, R] {
	return Func0[G, R]{Func[G, none, R]{defineMethod(k, name, fn == nil,
		func(g *G, ctx context.Context, _ none) (R, error) { return fn(g, ctx) })}}
}

// Action is Method for a method without result.
func Action[G, A any](k Kind[G], name string, fn func(*G, context.Context, A) error) Act[G, A] {
	return Act[G, A]{Func[G, A, none]{defineMethod(k, name, fn == nil,
		func(g *G, ctx context.Context, a A) (none, error) { return none{}, fn(g, ctx, a) })}}
}

// Action0 is Method for a method with neither argument nor result.
func Action0[G any](k Kind[G], name string, fn func(*G, context.Context) error) Act0[G] {
	return Act0[G]{Func[G, none, none]{defineMethod(k, name, fn == nil,
		func(g *G, ctx context.Context, _ none) (none, error) { return none{}, fn(g, ctx) })}}
}

func (f Func[G, A, R]) but(change func(*method[G, A, R])) Func[G, A, R] {
	m := *f.m
	change(&m)
	m.bad = m.usable()
	return Func[G, A, R]{&m}
}

// With returns a handle whose calls have opts (Deadline, Detached, ...) beside those that f has; of two that contradict
// each other the later one counts. Keep it and reuse it. Options that calls cannot have fail each of them with
// ErrBadOption: CPU and its siblings, and Retries, RetryIf and Backoff unless the method is Idempotent.
func (f Func[G, A, R]) With(opts ...raysys.Option) Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.opts = core.With(m.opts, opts) })
}

// ReadOnly declares that the method changes nothing: while a read-only turn waits, further read-only calls may run.
func (f Func[G, A, R]) ReadOnly() Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.readOnly = true })
}

// Idempotent declares that a call may run twice: the runtime then repeats it when its outcome is unknown, and With takes
// raysys.Retries, RetryIf and Backoff, which say how often, for which errors and after what pause.
func (f Func[G, A, R]) Idempotent() Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.idempotent = true })
}

// Reentrant admits a call of this method that comes back to a grain whose turn waits for it. One that comes back over
// another node is admitted while that turn waits for anything.
func (f Func[G, A, R]) Reentrant() Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.reentrant = true })
}

// Call calls the method on grain g and returns the future of its result at once. Calls from one goroutine to one
// grain start in the order they were made. The call has a deadline of 30 s unless With says otherwise; then it fails
// with ErrDeadline, whether it runs or waits. A Ref inside arg is passed on and never waited for. arg is handed over:
// do not change what it points to afterwards.
//
// Everything that can be wrong is reported through the future: ErrNoRuntime, ErrUnknownFunc, ErrOverloaded (the
// mailbox is full), ErrCycle, ErrActivation, a *raysys.TaskError from the method.
func (f Func[G, A, R]) Call(ctx context.Context, g Grain[G], arg A) raysys.Ref[R] {
	return raysys.Ref[R](f.m.submit(ctx, g.id, arg, 1))
}

// On is Call with the argument given by reference: it returns at once, and the call takes its place in the grain's
// order when the value is there. If the reference fails, the call fails with its error and the method does not run.
func (f Func[G, A, R]) On(ctx context.Context, g Grain[G], arg raysys.Ref[A]) raysys.Ref[R] {
	return raysys.Ref[R](f.m.submitOn(ctx, g.id, core.Ref[A](arg)))
}

// Tell is Call without a future. The error says why the call was not queued; a failure of the method itself is
// logged.
func (f Func[G, A, R]) Tell(ctx context.Context, g Grain[G], arg A) error {
	r := f.m.submit(ctx, g.id, arg, 1)
	if !r.ID().IsZero() {
		return nil // it was queued, and may even have failed since
	}
	_, err := r.Get(ctx)
	return err
}

// Each calls the method on every grain of gs with the same argument and returns the futures in their order.
func (f Func[G, A, R]) Each(ctx context.Context, gs []Grain[G], arg A) []raysys.Ref[R] {
	refs := make([]raysys.Ref[R], len(gs))
	for i, g := range gs {
		refs[i] = raysys.Ref[R](f.m.submit(ctx, g.id, arg, 1))
	}
	return refs
}

// The variants, in the same words.

// With returns a handle whose calls have opts.
func (f Func0[G, R]) With(opts ...raysys.Option) Func0[G, R] { return Func0[G, R]{f.f.With(opts...)} }

// ReadOnly declares that the method changes nothing; see Func.ReadOnly.
func (f Func0[G, R]) ReadOnly() Func0[G, R] { return Func0[G, R]{f.f.ReadOnly()} }

// Idempotent declares that a call may run twice; see Func.Idempotent.
func (f Func0[G, R]) Idempotent() Func0[G, R] { return Func0[G, R]{f.f.Idempotent()} }

// Reentrant admits calls that come back; see Func.Reentrant.
func (f Func0[G, R]) Reentrant() Func0[G, R] { return Func0[G, R]{f.f.Reentrant()} }

// Call calls the method; see Func.Call.
func (f Func0[G, R]) Call(ctx context.Context, g Grain[G]) raysys.Ref[R] {
	return raysys.Ref[R](f.f.m.submit(ctx, g.id, none{}, 1))
}

// Tell is Call without a future; see Func.Tell.
func (f Func0[G, R]) Tell(ctx context.Context, g Grain[G]) error { return f.f.Tell(ctx, g, none{}) }

// Each calls the method on every grain of gs; see Func.Each.
func (f Func0[G, R]) Each(ctx context.Context, gs []Grain[G]) []raysys.Ref[R] {
	return f.f.Each(ctx, gs, none{})
}

// With returns a handle whose calls have opts.
func (f Act[G, A]) With(opts ...raysys.Option) Act[G, A] { return Act[G, A]{f.f.With(opts...)} }

// ReadOnly declares that the method changes nothing; see Func.ReadOnly.
func (f Act[G, A]) ReadOnly() Act[G, A] { return Act[G, A]{f.f.ReadOnly()} }

// Idempotent declares that a call may run twice; see Func.Idempotent.
func (f Act[G, A]) Idempotent() Act[G, A] { return Act[G, A]{f.f.Idempotent()} }

// Reentrant admits calls that come back; see Func.Reentrant.
func (f Act[G, A]) Reentrant() Act[G, A] { return Act[G, A]{f.f.Reentrant()} }

// Call calls the method and returns the future of its end; see Func.Call.
func (f Act[G, A]) Call(ctx context.Context, g Grain[G], arg A) Done {
	return Done(f.f.m.submit(ctx, g.id, arg, 1))
}

// On is Call with the argument given by reference; see Func.On.
func (f Act[G, A]) On(ctx context.Context, g Grain[G], arg raysys.Ref[A]) Done {
	return Done(f.f.m.submitOn(ctx, g.id, core.Ref[A](arg)))
}

// Tell is Call without a future; see Func.Tell.
func (f Act[G, A]) Tell(ctx context.Context, g Grain[G], arg A) error { return f.f.Tell(ctx, g, arg) }

// Each calls the method on every grain of gs; see Func.Each.
func (f Act[G, A]) Each(ctx context.Context, gs []Grain[G], arg A) []Done {
	return f.f.Each(ctx, gs, arg)
}

// With returns a handle whose calls have opts.
func (f Act0[G]) With(opts ...raysys.Option) Act0[G] { return Act0[G]{f.f.With(opts...)} }

// ReadOnly declares that the method changes nothing; see Func.ReadOnly.
func (f Act0[G]) ReadOnly() Act0[G] { return Act0[G]{f.f.ReadOnly()} }

// Idempotent declares that a call may run twice; see Func.Idempotent.
func (f Act0[G]) Idempotent() Act0[G] { return Act0[G]{f.f.Idempotent()} }

// Reentrant admits calls that come back; see Func.Reentrant.
func (f Act0[G]) Reentrant() Act0[G] { return Act0[G]{f.f.Reentrant()} }

// Call calls the method and returns the future of its end; see Func.Call.
func (f Act0[G]) Call(ctx context.Context, g Grain[G]) Done {
	return Done(f.f.m.submit(ctx, g.id, none{}, 1))
}

// Tell is Call without a future; see Func.Tell.
func (f Act0[G]) Tell(ctx context.Context, g Grain[G]) error { return f.f.Tell(ctx, g, none{}) }

// Each calls the method on every grain of gs; see Func.Each.
func (f Act0[G]) Each(ctx context.Context, gs []Grain[G]) []Done { return f.f.Each(ctx, gs, none{}) }

// Done is the future of a method without result: Get tells whether it succeeded.
type Done = raysys.Ref[none]
