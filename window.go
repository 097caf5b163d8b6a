package raysys

import (
	"context"

	"github.com/raysys/raysys/internal/core"
)

// Window bounds how many futures a loop has open at a time:
//
//	window := raysys.Window[int]{Max: 16}
//	for _, job := range jobs {
//		if err := window.Add(ctx, work.Go(ctx, job)); err != nil {
//			return err
//		}
//	}
//	return window.Wait(ctx)
//
// It keeps no results: who wants them keeps the references. One goroutine at a time uses a Window, and it must not be copied.
type Window[T any] struct {
	// Max is how many futures may be open; less than 1 is 1.
	Max int
	w   core.Window
}

// Add puts ref into the window, and waits while more than Max are open. It returns the error of the first future that it, or Wait, sees
// fail, once: a loop that goes on hears of no other. When ctx ends first it returns why; ref is in the window all the same.
func (w *Window[T]) Add(ctx context.Context, ref Ref[T]) error {
	return w.w.Add(ctx, ref.Link, w.Max)
}

// Wait waits until none is open. It returns an error as Add does. The window can be used again.
func (w *Window[T]) Wait(ctx context.Context) error { return w.w.Drain(ctx, 0) }
