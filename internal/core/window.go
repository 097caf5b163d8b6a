package core

import "context"

// Window is what raysys.Window is made of.
type Window struct {
	set  RefSet
	open int
	said bool // an error was returned
}

// Add puts l into the window, and waits while more than most are in it.
func (w *Window) Add(ctx context.Context, l Link, most int) error {
	if FutureOf(l) == nil {
		return ErrInvalidRef
	}
	if _, _, err := TurnOf(ctx); err != nil {
		return err
	}
	w.set.Add([]Link{l})
	w.open++
	return w.Drain(ctx, max(most, 1))
}

// Drain waits while more than most are in the window.
func (w *Window) Drain(ctx context.Context, most int) error {
	var first error
	for w.open > most {
		ended := true
		for _, l := range w.set.AsCompleted(ctx) {
			ended = false
			w.open--
			if err := FutureOf(l).Failure(); err != nil && !w.said {
				w.said, first = true, err
			}
			break
		}
		if ended {
			if _, _, err := TurnOf(ctx); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}
	return first
}
