package grains

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

// Func is a typed handle of a method with an argument and a result. Make it once beside its kind, with Method.
type Func[G, A, R any] struct {
	_ [0]*func(*G, A) R
	f grainengine.Func
}

// Method makes fn, usually a method expression such as (*Counter).Add, callable under name.
func Method[G, A, R any](k Kind[G], name string, fn func(*G, context.Context, A) (R, error)) Func[G, A, R] {
	return Func[G, A, R]{f: grainengine.Method(k.k, name, fn)}
}

// Method0 is Method for a method without argument.
func Method0[G, R any](k Kind[G], name string, fn func(*G, context.Context) (R, error)) Func0[G, R] {
	return Func0[G, R]{f: grainengine.Method0(k.k, name, fn)}
}

// Action is Method for a method without result.
func Action[G, A any](k Kind[G], name string, fn func(*G, context.Context, A) error) Act[G, A] {
	return Act[G, A]{f: grainengine.Action(k.k, name, fn)}
}

// Action0 is Method for a method with neither argument nor result.
func Action0[G any](k Kind[G], name string, fn func(*G, context.Context) error) Act0[G] {
	return Act0[G]{f: grainengine.Action0(k.k, name, fn)}
}

// With returns a handle whose calls have opts (Deadline, Detached, ...) beside those that f has; of two that contradict
// each other the later one counts. Keep it and reuse it. Options that calls cannot have fail each of them with
// ErrBadOption: CPU and its siblings, and Retries, RetryIf and Backoff unless the method is Idempotent.
func (f Func[G, A, R]) With(opts ...raysys.Option) Func[G, A, R] {
	return Func[G, A, R]{f: f.f.With(opts)}
}

// ReadOnly declares that the method changes nothing: while a read-only turn waits, further read-only calls may run.
func (f Func[G, A, R]) ReadOnly() Func[G, A, R] {
	return Func[G, A, R]{f: f.f.ReadOnly()}
}

// Idempotent declares that a call may run twice: the runtime then repeats it when its outcome is unknown, and With takes
// raysys.Retries, RetryIf and Backoff, which say how often, for which errors and after what pause.
func (f Func[G, A, R]) Idempotent() Func[G, A, R] {
	return Func[G, A, R]{f: f.f.Idempotent()}
}

// Reentrant admits a call of this method that comes back to a grain whose turn waits for it. One that comes back over
// another node is admitted while that turn waits for anything.
func (f Func[G, A, R]) Reentrant() Func[G, A, R] {
	return Func[G, A, R]{f: f.f.Reentrant()}
}

// Call calls the method on grain g and returns the future of its result at once. Calls from one goroutine to one
// grain start in the order they were made. The call has a deadline of 30 s unless With says otherwise; then it fails
// with ErrDeadline, whether it runs or waits. A Ref inside arg is passed on and never waited for. arg is handed over:
// do not change what it points to afterwards.
//
// Everything that can be wrong is reported through the future: ErrNoRuntime, ErrUnknownFunc, ErrOverloaded (the
// mailbox is full), ErrCycle, ErrActivation, a *raysys.TaskError from the method.
func (f Func[G, A, R]) Call(ctx context.Context, g Grain[G], arg A) raysys.Ref[R] {
	return raysys.Ref[R]{Link: grainengine.Call(ctx, f.f, graindir.ID(g.id), arg)}
}

// On is Call with the argument given by reference: it returns at once, and the call takes its place in the grain's
// order when the value is there. If the reference fails, the call fails with its error and the method does not run.
func (f Func[G, A, R]) On(ctx context.Context, g Grain[G], arg raysys.Ref[A]) raysys.Ref[R] {
	return raysys.Ref[R]{Link: f.f.On(ctx, graindir.ID(g.id), arg.Link)}
}

// Tell is Call without a future. The error says why the call was not queued; a failure of the method itself is
// logged. In a turn of a Durable kind it is a message, which is stored with the turn and arrives: see Durable.
func (f Func[G, A, R]) Tell(ctx context.Context, g Grain[G], arg A) error {
	return grainengine.Tell(ctx, f.f, graindir.ID(g.id), arg)
}

// Each calls the method on every grain of gs with the same argument and returns the futures in their order.
func (f Func[G, A, R]) Each(ctx context.Context, gs []Grain[G], arg A) []raysys.Ref[R] {
	refs := make([]raysys.Ref[R], len(gs))
	for i, g := range gs {
		refs[i] = raysys.Ref[R]{Link: grainengine.Call(ctx, f.f, graindir.ID(g.id), arg)}
	}
	return refs
}
