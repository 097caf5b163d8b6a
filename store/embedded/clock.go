package embedded

import "time"

// Clock is where sessions take their time from.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on a goroutine of its own once d has passed, unless stop came first.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
