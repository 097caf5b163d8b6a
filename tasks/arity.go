package tasks

import (
	"context"

	"github.com/raysys/raysys"
)

// With returns a handle whose submissions have opts.
func (k Task0[R]) With(opts ...raysys.Option) Task0[R] { return Task0[R]{k.t.With(opts...)} }

// Go submits the task and returns its future at once; see Task.Go.
func (k Task0[R]) Go(ctx context.Context) raysys.Ref[R] {
	return raysys.Ref[R](k.t.spec.submit(ctx, none{}, 1))
}

// With returns a handle whose submissions have opts.
func (k Task2[A, B, R]) With(opts ...raysys.Option) Task2[A, B, R] {
	return Task2[A, B, R]{k.t.With(opts...)}
}

// Go submits the task and returns its future at once; see Task.Go.
func (k Task2[A, B, R]) Go(ctx context.Context, a A, b B) raysys.Ref[R] {
	return raysys.Ref[R](k.t.spec.submit(ctx, args2[A, B]{a, b}, 1))
}

// On is Go with both parameters given by reference; see Task.On.
func (k Task2[A, B, R]) On(ctx context.Context, a raysys.Ref[A], b raysys.Ref[B]) raysys.Ref[R] {
	return raysys.Ref[R](on(ctx, k.t.spec, &a, &b))
}

// With returns a handle whose submissions have opts.
func (k Task3[A, B, C, R]) With(opts ...raysys.Option) Task3[A, B, C, R] {
	return Task3[A, B, C, R]{k.t.With(opts...)}
}

// Go submits the task and returns its future at once; see Task.Go.
func (k Task3[A, B, C, R]) Go(ctx context.Context, a A, b B, c C) raysys.Ref[R] {
	return raysys.Ref[R](k.t.spec.submit(ctx, args3[A, B, C]{a, b, c}, 1))
}

// On is Go with the three parameters given by reference; see Task.On.
func (k Task3[A, B, C, R]) On(ctx context.Context, a raysys.Ref[A], b raysys.Ref[B], c raysys.Ref[C]) raysys.Ref[R] {
	return raysys.Ref[R](on(ctx, k.t.spec, &a, &b, &c))
}
