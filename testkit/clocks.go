package testkit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store/embedded"
)

// nodeClock is the clock by which a node measures its lease. Its time of day can jump.
type nodeClock struct {
	origin time.Time
	jumped atomic.Int64
}

var _ member.Clock = (*nodeClock)(nil)

func newNodeClock() *nodeClock { return &nodeClock{origin: time.Now()} }

func (c *nodeClock) Mono() time.Duration { return time.Since(c.origin) }

func (c *nodeClock) Wall() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.jumped.Load()))
}

func (c *nodeClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// storeClock is the clock of the store's sessions. It stands still while the store is down, because a store that is down
// ends no session; real ones begin the TTL of each anew when they come back.
type storeClock struct {
	mu     sync.Mutex // guards the rest
	lost   time.Duration
	frozen time.Time // since when; zero while the clock runs
	timers map[*storeTimer]struct{}
}

var _ embedded.Clock = (*storeClock)(nil)

type storeTimer struct {
	due  time.Time // by this clock
	f    func()
	real *time.Timer // nil while the clock stands
}

func newStoreClock() *storeClock { return &storeClock{timers: map[*storeTimer]struct{}{}} }

// Now implements embedded.Clock.
func (c *storeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

func (c *storeClock) nowLocked() time.Time {
	now := time.Now()
	if !c.frozen.IsZero() {
		now = c.frozen
	}
	return now.Add(-c.lost)
}

// AfterFunc implements embedded.Clock.
func (c *storeClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &storeTimer{due: c.nowLocked().Add(d), f: f}
	c.timers[t] = struct{}{}
	if c.frozen.IsZero() {
		c.armLocked(t)
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.timers[t]
		delete(c.timers, t)
		if t.real != nil {
			t.real.Stop()
		}
		return waits
	}
}

func (c *storeClock) armLocked(t *storeTimer) {
	t.real = time.AfterFunc(t.due.Sub(c.nowLocked()), func() {
		c.mu.Lock()
		_, waits := c.timers[t]
		due := waits && c.frozen.IsZero() && !c.nowLocked().Before(t.due)
		if due {
			delete(c.timers, t)
		}
		c.mu.Unlock()
		if due {
			t.f()
		}
	})
}

// freeze stops the clock.
func (c *storeClock) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		return
	}
	c.frozen = time.Now()
	for t := range c.timers {
		if t.real != nil {
			t.real.Stop()
			t.real = nil
		}
	}
}

// thaw lets it go on from where it stood.
func (c *storeClock) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen.IsZero() {
		return
	}
	c.lost += time.Since(c.frozen)
	c.frozen = time.Time{}
	for t := range c.timers {
		c.armLocked(t)
	}
}
