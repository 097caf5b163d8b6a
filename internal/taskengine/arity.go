package taskengine

import (
	"context"

	"github.com/raysys/raysys"
)

// With is tasks.Task0.With.
func (k Task0[R]) With(opts ...raysys.Option) Task0[R] { return Task0[R]{k.t.With(opts...)} }

// Go is tasks.Task0.Go.
func (k Task0[R]) Go(ctx context.Context) raysys.Ref[R] {
	return raysys.Ref[R](k.t.spec.submit(ctx, none{}))
}

// With is tasks.Task2.With.
func (k Task2[A, B, R]) With(opts ...raysys.Option) Task2[A, B, R] {
	return Task2[A, B, R]{k.t.With(opts...)}
}

// Go is tasks.Task2.Go.
func (k Task2[A, B, R]) Go(ctx context.Context, a A, b B) raysys.Ref[R] {
	return raysys.Ref[R](k.t.spec.submit(ctx, args2[A, B]{a, b}))
}

// On is tasks.Task2.On.
func (k Task2[A, B, R]) On(ctx context.Context, a raysys.Ref[A], b raysys.Ref[B]) raysys.Ref[R] {
	return raysys.Ref[R](on(ctx, k.t.spec, a.Link, b.Link))
}

// With is tasks.Task3.With.
func (k Task3[A, B, C, R]) With(opts ...raysys.Option) Task3[A, B, C, R] {
	return Task3[A, B, C, R]{k.t.With(opts...)}
}

// Go is tasks.Task3.Go.
func (k Task3[A, B, C, R]) Go(ctx context.Context, a A, b B, c C) raysys.Ref[R] {
	return raysys.Ref[R](k.t.spec.submit(ctx, args3[A, B, C]{a, b, c}))
}

// On is tasks.Task3.On.
func (k Task3[A, B, C, R]) On(ctx context.Context, a raysys.Ref[A], b raysys.Ref[B], c raysys.Ref[C]) raysys.Ref[R] {
	return raysys.Ref[R](on(ctx, k.t.spec, a.Link, b.Link, c.Link))
}
