package wheel

import (
	"sync"
	"sync/atomic"
	"time"
)

// rough is a clock that is read far more often than it needs to be exact: for the default deadline of a grain call, 30 s
// from now, twice per call. Reading the real clock took a fifth of a call's time.
//
// While it is read, a timer sets it every tick; after a tick without a reader the timer ends, and the next reader
// starts with the real time. So it is a tick old at most, but for a process that got no CPU meanwhile.
type rough struct {
	now   atomic.Int64
	fresh atomic.Bool // the timer runs
	read  atomic.Bool // since the last tick

	mu      sync.Mutex // guards the rest and changes of fresh
	timer   *time.Timer
	stopped bool
}

// Rough returns Now as of up to a tick ago. It never runs ahead of Now.
func (w *Wheel) Rough() int64 {
	r := &w.rough
	if !r.fresh.Load() {
		return w.freshen()
	}
	if !r.read.Load() {
		r.read.Store(true)
	}
	return r.now.Load()
}

func (w *Wheel) freshen() int64 {
	now := w.Now()
	r := &w.rough
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.fresh.Load() {
		return now
	}
	r.now.Store(now)
	if r.timer == nil {
		r.timer = time.AfterFunc(time.Duration(tick), w.tickRough)
	} else {
		r.timer.Reset(time.Duration(tick))
	}
	r.fresh.Store(true)
	return now
}

func (w *Wheel) tickRough() {
	r := &w.rough
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	if !r.read.Swap(false) {
		r.fresh.Store(false)
		return
	}
	r.now.Store(w.Now())
	r.timer.Reset(time.Duration(tick))
}

func (r *rough) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.fresh.Store(false)
	if r.timer != nil {
		r.timer.Stop()
	}
}
