package stream

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// defaultWithin is how long a handler has where Within does not say so.
const defaultWithin = 2 * time.Minute

// Within is how long a handler may take: 2 minutes unless set. Then its context ends, and what the handler returns counts as ever: an error is
// one that OnError counts, and nil means that the event was taken. A handler that does not look at its context goes on until it returns.
// The time that an event waits before its handler is called does not count.
func Within(d time.Duration) IntoOption {
	return func(s *subscription) error {
		if d <= 0 {
			return fmt.Errorf("Within(%v): give a positive duration", d)
		}
		s.within = d
		return nil
	}
}

// bounded is the context of a handler: the call's, with an end. Few handlers ask for the end of their context, so the timer is made for those.
type bounded struct {
	context.Context
	end time.Time

	mu   sync.Mutex // guards the rest
	made context.Context
	stop context.CancelFunc
}

// timed is the context that has the timer.
func (b *bounded) timed() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made == nil {
		b.made, b.stop = context.WithDeadline(b.Context, b.end)
	}
	return b.made
}

// now is the context that knows more: the one with the timer, once it is there.
func (b *bounded) now() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made != nil {
		return b.made
	}
	return b.Context
}

// close stops the timer.
func (b *bounded) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop != nil {
		b.stop()
	}
}

// Deadline implements context.Context.
func (b *bounded) Deadline() (time.Time, bool) {
	if at, ok := b.Context.Deadline(); ok && at.Before(b.end) {
		return at, true
	}
	return b.end, true
}

// Done implements context.Context.
func (b *bounded) Done() <-chan struct{} { return b.timed().Done() }

// Err implements context.Context.
func (b *bounded) Err() error {
	if time.Now().Before(b.end) {
		return b.now().Err()
	}
	return b.timed().Err()
}

// Value implements context.Context.
func (b *bounded) Value(key any) any { return b.now().Value(key) }
