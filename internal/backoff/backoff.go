package backoff

import (
	"context"
	"time"
)

// Doubling is pauses that double from First to Longest. One goroutine uses it at a time.
type Doubling struct {
	First, Longest time.Duration
	// Draw returns numbers in [0, 1): so much of one half of each pause is left out, so that those that lost the same
	// thing together do not come back together. Nothing is left out where it is nil.
	Draw func() float64

	last time.Duration // 0 before the first
}

// Next is the next pause.
func (d *Doubling) Next() time.Duration {
	if d.last > d.Longest/2 { // twice as much may be no Duration
		d.last = d.Longest
	} else {
		d.last = min(max(2*d.last, d.First), d.Longest)
	}
	if d.Draw == nil {
		return d.last
	}
	return d.last - time.Duration(d.Draw()*float64(d.last)/2)
}

// Reset makes First the next pause: an attempt has succeeded.
func (d *Doubling) Reset() { d.last = 0 }

// Wait waits for the next pause, and returns false when ctx ends before.
func (d *Doubling) Wait(ctx context.Context) bool { return Wait(ctx, d.Next()) }

// Wait waits that long, and returns false when ctx ends before.
func Wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
