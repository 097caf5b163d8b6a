package tasks

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/taskengine"
)

// Task0, Task2 and Task3 are the handles of functions with none, two and three parameters.
type (
	Task0[R any]          Task[struct{}, R]
	Task2[A, B, R any]    Task[func(A, B), R]
	Task3[A, B, C, R any] Task[func(A, B, C), R]
)

// With returns a handle whose submissions have opts.
func (k Task0[R]) With(opts ...raysys.Option) Task0[R] {
	return Task0[R]{k: k.k.With(opts)}
}

// Go submits the task and returns its future at once; see Task.Go.
func (k Task0[R]) Go(ctx context.Context) raysys.Ref[R] {
	return raysys.Ref[R]{Link: taskengine.Go0[R](ctx, k.k)}
}

// With returns a handle whose submissions have opts.
func (k Task2[A, B, R]) With(opts ...raysys.Option) Task2[A, B, R] {
	return Task2[A, B, R]{k: k.k.With(opts)}
}

// Go submits the task and returns its future at once; see Task.Go.
func (k Task2[A, B, R]) Go(ctx context.Context, a A, b B) raysys.Ref[R] {
	return raysys.Ref[R]{Link: taskengine.Go2[A, B, R](ctx, k.k, a, b)}
}

// On is Go with both parameters given by reference; see Task.On.
func (k Task2[A, B, R]) On(ctx context.Context, a raysys.Ref[A], b raysys.Ref[B]) raysys.Ref[R] {
	return raysys.Ref[R]{Link: k.k.On(ctx, a.Link, b.Link)}
}

// With returns a handle whose submissions have opts.
func (k Task3[A, B, C, R]) With(opts ...raysys.Option) Task3[A, B, C, R] {
	return Task3[A, B, C, R]{k: k.k.With(opts)}
}

// Go submits the task and returns its future at once; see Task.Go.
func (k Task3[A, B, C, R]) Go(ctx context.Context, a A, b B, c C) raysys.Ref[R] {
	return raysys.Ref[R]{Link: taskengine.Go3[A, B, C, R](ctx, k.k, a, b, c)}
}

// On is Go with the three parameters given by reference; see Task.On.
func (k Task3[A, B, C, R]) On(ctx context.Context, a raysys.Ref[A], b raysys.Ref[B], c raysys.Ref[C]) raysys.Ref[R] {
	return raysys.Ref[R]{Link: k.k.On(ctx, a.Link, b.Link, c.Link)}
}
