package grains

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/grainengine"
)

// Func0 is the handle of a method without argument, Act of one without result, Act0 of one with neither.
type (
	Func0[G, R any] Func[G, struct{}, R]
	Act[G, A any]   Func[G, A, struct{}]
	Act0[G any]     Func[G, struct{}, struct{}]
)

// Done is the future of a method without result: Get tells whether it succeeded.
type Done = raysys.Ref[struct{}]

// With returns a handle whose calls have opts.
func (f Func0[G, R]) With(opts ...raysys.Option) Func0[G, R] {
	return Func0[G, R]{f: f.f.With(opts)}
}

// ReadOnly declares that the method changes nothing; see Func.ReadOnly.
func (f Func0[G, R]) ReadOnly() Func0[G, R] {
	return Func0[G, R]{f: f.f.ReadOnly()}
}

// Idempotent declares that a call may run twice; see Func.Idempotent.
func (f Func0[G, R]) Idempotent() Func0[G, R] {
	return Func0[G, R]{f: f.f.Idempotent()}
}

// Reentrant admits calls that come back; see Func.Reentrant.
func (f Func0[G, R]) Reentrant() Func0[G, R] {
	return Func0[G, R]{f: f.f.Reentrant()}
}

// Call calls the method; see Func.Call.
func (f Func0[G, R]) Call(ctx context.Context, g Grain[G]) raysys.Ref[R] {
	return raysys.Ref[R]{Link: grainengine.Call(ctx, f.f, grainengine.ID(g.id), struct{}{})}
}

// Tell is Call without a future; see Func.Tell.
func (f Func0[G, R]) Tell(ctx context.Context, g Grain[G]) error {
	return grainengine.Tell(ctx, f.f, grainengine.ID(g.id), struct{}{})
}

// Each calls the method on every grain of gs; see Func.Each.
func (f Func0[G, R]) Each(ctx context.Context, gs []Grain[G]) []raysys.Ref[R] {
	refs := make([]raysys.Ref[R], len(gs))
	for i, g := range gs {
		refs[i] = raysys.Ref[R]{Link: grainengine.Call(ctx, f.f, grainengine.ID(g.id), struct{}{})}
	}
	return refs
}

// With returns a handle whose calls have opts.
func (f Act[G, A]) With(opts ...raysys.Option) Act[G, A] {
	return Act[G, A]{f: f.f.With(opts)}
}

// ReadOnly declares that the method changes nothing; see Func.ReadOnly.
func (f Act[G, A]) ReadOnly() Act[G, A] {
	return Act[G, A]{f: f.f.ReadOnly()}
}

// Idempotent declares that a call may run twice; see Func.Idempotent.
func (f Act[G, A]) Idempotent() Act[G, A] {
	return Act[G, A]{f: f.f.Idempotent()}
}

// Reentrant admits calls that come back; see Func.Reentrant.
func (f Act[G, A]) Reentrant() Act[G, A] {
	return Act[G, A]{f: f.f.Reentrant()}
}

// Call calls the method and returns the future of its end; see Func.Call.
func (f Act[G, A]) Call(ctx context.Context, g Grain[G], arg A) Done {
	return Done{Link: grainengine.Call(ctx, f.f, grainengine.ID(g.id), arg)}
}

// On is Call with the argument given by reference; see Func.On.
func (f Act[G, A]) On(ctx context.Context, g Grain[G], arg raysys.Ref[A]) Done {
	return Done{Link: f.f.On(ctx, grainengine.ID(g.id), arg.Link)}
}

// Tell is Call without a future; see Func.Tell.
func (f Act[G, A]) Tell(ctx context.Context, g Grain[G], arg A) error {
	return grainengine.Tell(ctx, f.f, grainengine.ID(g.id), arg)
}

// Each calls the method on every grain of gs; see Func.Each.
func (f Act[G, A]) Each(ctx context.Context, gs []Grain[G], arg A) []Done {
	refs := make([]Done, len(gs))
	for i, g := range gs {
		refs[i] = Done{Link: grainengine.Call(ctx, f.f, grainengine.ID(g.id), arg)}
	}
	return refs
}

// With returns a handle whose calls have opts.
func (f Act0[G]) With(opts ...raysys.Option) Act0[G] {
	return Act0[G]{f: f.f.With(opts)}
}

// ReadOnly declares that the method changes nothing; see Func.ReadOnly.
func (f Act0[G]) ReadOnly() Act0[G] {
	return Act0[G]{f: f.f.ReadOnly()}
}

// Idempotent declares that a call may run twice; see Func.Idempotent.
func (f Act0[G]) Idempotent() Act0[G] {
	return Act0[G]{f: f.f.Idempotent()}
}

// Reentrant admits calls that come back; see Func.Reentrant.
func (f Act0[G]) Reentrant() Act0[G] {
	return Act0[G]{f: f.f.Reentrant()}
}

// Call calls the method and returns the future of its end; see Func.Call.
func (f Act0[G]) Call(ctx context.Context, g Grain[G]) Done {
	return Done{Link: grainengine.Call(ctx, f.f, grainengine.ID(g.id), struct{}{})}
}

// Tell is Call without a future; see Func.Tell.
func (f Act0[G]) Tell(ctx context.Context, g Grain[G]) error {
	return grainengine.Tell(ctx, f.f, grainengine.ID(g.id), struct{}{})
}

// Each calls the method on every grain of gs; see Func.Each.
func (f Act0[G]) Each(ctx context.Context, gs []Grain[G]) []Done {
	refs := make([]Done, len(gs))
	for i, g := range gs {
		refs[i] = Done{Link: grainengine.Call(ctx, f.f, grainengine.ID(g.id), struct{}{})}
	}
	return refs
}
