package grains

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

// Func0 is the handle of a method without argument.
type Func0[G, R any] Func[G, struct{}, R]

// Act is the handle of a method without result, Act0 of one with neither argument nor result.
type (
	Act[G, A any] = Func[G, A, struct{}]
	Act0[G any]   = Func0[G, struct{}]
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
	return raysys.Ref[R]{Link: grainengine.Call(ctx, f.f, graindir.ID(g.id), struct{}{})}
}

// Tell is Call without a future; see Func.Tell.
func (f Func0[G, R]) Tell(ctx context.Context, g Grain[G]) error {
	return grainengine.Tell(ctx, f.f, graindir.ID(g.id), struct{}{})
}

// Each calls the method on every grain of gs; see Func.Each.
func (f Func0[G, R]) Each(ctx context.Context, gs []Grain[G]) []raysys.Ref[R] {
	refs := make([]raysys.Ref[R], len(gs))
	for i, g := range gs {
		refs[i] = raysys.Ref[R]{Link: grainengine.Call(ctx, f.f, graindir.ID(g.id), struct{}{})}
	}
	return refs
}
