package wheel

import (
	"math"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// tick is the wheel's resolution in nanoseconds: a deadline is rarely shorter than a few of them, and 64 per slot of
// the next level keep a 30 s alarm at two moves in its life.
const tick = int64(time.Millisecond)

// unarmed is wake's value while the timer is not armed.
const unarmed = math.MaxInt64

// Wheel rings alarms at their time. Its methods may be called from any goroutine. Make one with New.
type Wheel struct {
	start time.Time
	rough rough

	mu      sync.Mutex // guards all below and the links of every alarm that is set
	slots   slots
	timer   *time.Timer // made when first needed
	wake    int64       // tick the timer is armed for; no slot that begins before it is occupied
	turning bool        // turn runs; a second one does nothing
	stopped bool
	idle    sync.Cond // on mu; turning became false
}

// New returns a wheel whose clock begins at zero. It starts nothing.
func New() *Wheel {
	w := &Wheel{start: time.Now(), wake: unarmed}
	w.idle.L = &w.mu
	return w
}

// Now returns the nanoseconds since New, the clock of Alarm.At.
func (w *Wheel) Now() int64 { return int64(time.Since(w.start)) }

// Set arms a for a.At. An alarm that is set already is moved; one whose time is past rings within a tick, never from
// inside Set. After Stop it does nothing. At must not be written while the alarm may be set.
func (w *Wheel) Set(a *core.Alarm) {
	w.mu.Lock()
	w.set(a)
	w.mu.Unlock()
}

// Clear takes a out of the wheel. True means that Ring was not called for this setting and will not be; false that it
// was called or is being called, or that a was not set.
func (w *Wheel) Clear(a *core.Alarm) bool {
	w.mu.Lock()
	set := a.Slot != 0
	if set {
		w.slots.unlink(a)
	}
	w.mu.Unlock()
	return set
}

// Stop ends the wheel and waits for a Ring that runs: none runs after it returns. Alarms that are set are forgotten.
// It must not be called from a Ring.
func (w *Wheel) Stop() {
	w.rough.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.slots.drop()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.wake = unarmed
	for w.turning {
		w.idle.Wait()
	}
}

func (w *Wheel) set(a *core.Alarm) {
	if w.stopped {
		return
	}
	if a.Slot != 0 {
		w.slots.unlink(a)
	}
	due := max(dueTick(a.At), w.slots.cur+1)
	list := w.slots.spot(due)
	if w.slots.begin(list) < w.wake {
		// First of all alarms, or put into too coarse a slot by a cur that lags. Only here is the clock read. Never
		// from a Ring: wake is not after cur then, and turn arms the timer when it ends.
		now := w.Now()
		w.advance(now)
		due = max(due, w.slots.cur+1)
		list = w.slots.spot(due)
		if t := w.slots.begin(list); t < w.wake {
			w.arm(t, now)
		}
	}
	w.slots.link(a, list)
}

// advance moves cur, which lags while nothing rings, up to the tick before now's; an alarm for now's own tick then
// rings at once. No occupied slot may be passed over, and none begins before wake.
func (w *Wheel) advance(now int64) {
	to := now/tick - 1
	if w.slots.count > 0 {
		to = min(to, w.wake-1)
	}
	w.slots.cur = max(w.slots.cur, to)
}

// arm sets the timer for the beginning of tick t. A timer that has just fired may run turn once more, for nothing.
func (w *Wheel) arm(t, now int64) {
	w.wake = t
	d := time.Duration(t*tick - now)
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.turn)
		return
	}
	w.timer.Reset(d)
}

// turn rings the alarms that are due and arms the timer for the next occupied slot, if there is one.
func (w *Wheel) turn() {
	w.mu.Lock()
	if !w.stopped && !w.turning {
		w.turnLocked()
	}
	w.mu.Unlock() // not deferred: a Ring that panics does so without the lock, and its panic must be what is shown
}

func (w *Wheel) turnLocked() {
	w.turning = true
	now := w.Now() / tick
	for {
		list := w.slots.first()
		if list < 0 || w.slots.begin(list) > now {
			break
		}
		w.slots.open(list)
		w.ring()
	}
	w.turning = false
	if w.stopped {
		w.idle.Broadcast()
		return
	}
	w.wake = unarmed
	if list := w.slots.first(); list >= 0 {
		w.arm(w.slots.begin(list), w.Now())
	}
}

// ring empties the due list. An alarm stays in it until its turn, so that Clear, Move and Stop reach it until then.
func (w *Wheel) ring() {
	for {
		a := w.slots.lists[dueSlot]
		if a == nil {
			return
		}
		w.slots.unlink(a)
		ring := a.Ring
		w.mu.Unlock()
		ring()
		w.mu.Lock()
	}
}
