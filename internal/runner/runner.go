package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/core"
)

// Clock is the node's clock.
type Clock interface {
	Now() int64
	SetAlarm(*core.Alarm)
}

// Runner runs what ends together.
type Runner struct {
	clock   Clock
	ctx     context.Context // ends with the Runner
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex // guards ended, and that nothing is added to running after it was set
	ended error
}

// New makes a Runner.
func New(clock Clock) *Runner {
	r := &Runner{clock: clock}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Context ends when End is called.
func (r *Runner) Context() context.Context { return r.ctx }

// End stops what runs. The first cause is kept.
func (r *Runner) End(cause error) {
	r.mu.Lock()
	if r.ended == nil {
		r.ended = cause
	}
	r.mu.Unlock()
	r.cancel()
}

// Err is why it ended, nil before.
func (r *Runner) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Wait waits for the goroutines. It is called after End.
func (r *Runner) Wait() { r.running.Wait() }

// start claims a goroutine.
func (r *Runner) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.running.Add(1)
	}
	return r.ended
}

// Run starts a goroutine that ends with the Runner; after End it does nothing.
func (r *Runner) Run(f func()) { r.Background(f, func(error) {}) }

// Background runs f on a goroutine that ends with the Runner, or calls ended with why there is none any more; the error
// matches raysys.ErrClosed.
func (r *Runner) Background(f func(), ended func(error)) {
	if err := r.start(); err != nil {
		if !errors.Is(err, raysys.ErrClosed) {
			err = errors.Join(raysys.ErrClosed, err)
		}
		ended(err)
		return
	}
	go func() {
		defer r.running.Done()
		f()
	}()
}

// Pause waits for d; false when the Runner ends first.
func (r *Runner) Pause(d time.Duration) bool { return backoff.Wait(r.ctx, d) }

// Now is the node's clock, in nanoseconds.
func (r *Runner) Now() int64 { return r.clock.Now() }

// After calls f, which must not block, in a while.
func (r *Runner) After(d time.Duration, f func()) {
	r.clock.SetAlarm(&core.Alarm{At: core.After(r.clock.Now(), d), Ring: f})
}

// Later is After a pause that is short for people and long for machines.
func (r *Runner) Later(f func()) { r.After(20*time.Millisecond, f) }
