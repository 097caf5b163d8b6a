package member_test

import (
	"context"
	"sync"
	"time"

	"github.com/raysys/raysys/store"
)

// gate stands for a process that can be stopped: while it is shut no call to the store begins, none returns, and no timer
// fires.
type gate struct {
	store.KV
	mu   sync.Mutex
	wait chan struct{} // closed by open; nil while the gate is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wait == nil {
		g.wait = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wait != nil {
		close(g.wait)
		g.wait = nil
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	if wait != nil {
		<-wait
	}
}

func (g *gate) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	g.pass()
	defer g.pass()
	return g.KV.Txn(ctx, ops)
}

func (g *gate) Renew(ctx context.Context, session string) error {
	g.pass()
	defer g.pass()
	return g.KV.Renew(ctx, session)
}

func (g *gate) Destroy(ctx context.Context, session string) error {
	g.pass()
	defer g.pass()
	return g.KV.Destroy(ctx, session)
}

func (g *gate) Watch(ctx context.Context, prefix string, after uint64) ([]store.Pair, uint64, error) {
	g.pass()
	defer g.pass()
	return g.KV.Watch(ctx, prefix, after)
}

func (g *gate) List(ctx context.Context, prefix string, mode store.ReadMode) ([]store.Pair, uint64, error) {
	g.pass()
	defer g.pass()
	return g.KV.List(ctx, prefix, mode)
}

// testClock is the bubble's time, whose wall clock can be set.
type testClock struct {
	gate *gate
	rate float64 // of it; 0: 1
	mu   sync.Mutex
	wall time.Duration // ahead of the bubble's
}

// paced is how long a time of the bubble is by this clock.
func (c *testClock) paced(d time.Duration) time.Duration {
	if c.rate == 0 {
		return d
	}
	return time.Duration(float64(d) * c.rate)
}

func (c *testClock) Mono() time.Duration { return c.paced(time.Since(bubbleBegan)) }

// bubbleBegan is when the time of each bubble begins.
var bubbleBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (c *testClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bubbleBegan.Add(c.Mono() + c.wall)
}

func (c *testClock) AfterFunc(d time.Duration, f func()) func() bool {
	if c.rate != 0 {
		d = time.Duration(float64(d)/c.rate) + 1
	}
	return time.AfterFunc(d, func() {
		c.gate.pass()
		f()
	}).Stop
}

// jump sets the wall clock.
func (c *testClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}
