package member

import "time"

// Clock is where a member takes its time from. Tests give one that jumps.
type Clock interface {
	// Mono only grows, at the rate of time, but may stop while the machine sleeps.
	Mono() time.Duration
	// Wall is the time of day, which may jump either way.
	Wall() time.Time
	// AfterFunc runs f on a goroutine of its own once d has passed by the monotonic clock, unless stop came first.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{ origin time.Time }

func newSystemClock() Clock { return &systemClock{origin: time.Now()} }

func (c *systemClock) Mono() time.Duration { return time.Since(c.origin) }
func (c *systemClock) Wall() time.Time     { return time.Now().Round(0) }

// both is Mono and Wall for the price of one.
func (c *systemClock) both() reading {
	now := time.Now()
	return reading{now.Sub(c.origin), now.Round(0)}
}

func (c *systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// reading is a moment by both clocks.
type reading struct {
	mono time.Duration
	wall time.Time
}

func read(c Clock) reading {
	if s, ok := c.(*systemClock); ok {
		return s.both()
	}
	return reading{c.Mono(), c.Wall()}
}

// elapsed is the larger of what the two clocks say (C16): the monotonic one stops while the machine sleeps, the wall clock
// may be set back.
func (r reading) elapsed(c Clock) time.Duration {
	return read(c).since(r)
}

// since is elapsed at a moment that was read before.
func (r reading) since(before reading) time.Duration {
	return max(r.mono-before.mono, r.wall.Sub(before.wall))
}

// alarm is a timer that one goroutine sets and waits for. A tick may come from before it was last set: the reader of
// C looks at the time again.
type alarm struct {
	clock Clock
	C     chan struct{} // never closed
	stop  func() bool
}

func newAlarm(c Clock) *alarm {
	return &alarm{clock: c, C: make(chan struct{}, 1), stop: func() bool { return true }}
}

func (a *alarm) set(d time.Duration) {
	a.stop()
	a.stop = a.clock.AfterFunc(max(d, 0), func() {
		select {
		case a.C <- struct{}{}:
		default: // it rings already
		}
	})
}
