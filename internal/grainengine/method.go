package grainengine

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Func is the handle of a method: what grains.Func and its siblings are made of. Where the method has no argument or no
// result, none stands for it.
type Func[G, A, R any] struct{ m *method[G, A, R] }

type none = struct{}

// Method is grains.Method.
func Method[G, A, R any](k Kind[G], name string, fn func(*G, context.Context, A) (R, error)) Func[G, A, R] {
	return defineMethod(k, name, fn == nil, fn)
}

// Method0 is grains.Method0.
func Method0[G, R any](k Kind[G], name string, fn func(*G, context.Context) (R, error)) Func[G, none, R] {
	return defineMethod(k, name, fn == nil, func(g *G, ctx context.Context, _ none) (R, error) { return fn(g, ctx) })
}

// Action is grains.Action.
func Action[G, A any](k Kind[G], name string, fn func(*G, context.Context, A) error) Func[G, A, none] {
	return defineMethod(k, name, fn == nil, func(g *G, ctx context.Context, a A) (none, error) { return none{}, fn(g, ctx, a) })
}

// Action0 is grains.Action0.
func Action0[G any](k Kind[G], name string, fn func(*G, context.Context) error) Func[G, none, none] {
	return defineMethod(k, name, fn == nil, func(g *G, ctx context.Context, _ none) (none, error) { return none{}, fn(g, ctx) })
}

func (f Func[G, A, R]) but(change func(*method[G, A, R])) Func[G, A, R] {
	m := *f.m
	change(&m)
	m.bad = m.usable()
	return Func[G, A, R]{&m}
}

// With is grains.Func.With.
func (f Func[G, A, R]) With(opts ...raysys.Option) Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.opts = core.With(m.opts, opts) })
}

// ReadOnly is grains.Func.ReadOnly.
func (f Func[G, A, R]) ReadOnly() Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.readOnly = true })
}

// Idempotent is grains.Func.Idempotent.
func (f Func[G, A, R]) Idempotent() Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.idempotent = true })
}

// Reentrant is grains.Func.Reentrant.
func (f Func[G, A, R]) Reentrant() Func[G, A, R] {
	return f.but(func(m *method[G, A, R]) { m.reentrant = true })
}

// Call is grains.Func.Call.
func (f Func[G, A, R]) Call(ctx context.Context, id ID, arg A) raysys.Ref[R] {
	return raysys.Ref[R](f.m.submit(ctx, id, arg))
}

// On is grains.Func.On.
func (f Func[G, A, R]) On(ctx context.Context, id ID, arg raysys.Ref[A]) raysys.Ref[R] {
	return raysys.Ref[R](f.m.submitOn(ctx, id, core.Ref[A](arg)))
}

// Tell is grains.Func.Tell.
func (f Func[G, A, R]) Tell(ctx context.Context, id ID, arg A) error {
	if told, err := f.tellLater(ctx, id, arg); told {
		return err
	}
	r := f.m.submit(ctx, id, arg)
	if !core.IDOf(r.Link).IsZero() {
		return nil // it was queued, and may even have failed since
	}
	_, err := core.Get(ctx, r)
	return err
}
