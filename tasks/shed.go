package tasks

import (
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// How many tasks a node is sent at a time rests on how long their like took. When they take longer than that, those
// that wait here would keep nodes idle that could run them, so the ones that would not begin soon are given back.
type shed struct {
	alarm  core.Alarm
	armed  atomic.Bool
	popped uint64 // guests begun until the last look
}

const (
	// shedPause is how often the guests that wait are looked at, while some do.
	shedPause = int64(20 * time.Millisecond)
	// shedSoon is how many such pauses a guest may have to wait, going by the last one: ten times what a node is sent
	// ahead, so that only a wrong estimate is corrected and not every fluctuation.
	shedSoon = 5
)

// watchGuests is called when a guest waits.
func (x *exchange) watchGuests() {
	s := &x.shed
	if s.armed.Load() || !s.armed.CompareAndSwap(false, true) {
		return
	}
	s.popped = x.guests.Popped()
	s.alarm.Ring = x.lookAtGuests
	s.alarm.At = x.rt.Now() + shedPause
	x.rt.SetAlarm(&s.alarm)
}

// lookAtGuests runs on the clock's goroutine.
func (x *exchange) lookAtGuests() {
	s := &x.shed
	popped := x.guests.Popped()
	waits, begun := int64(x.guests.Pushed()-popped), int64(popped-s.popped)
	if waits <= 0 || x.e.closed.Load() {
		s.armed.Store(false)
		if !x.guests.Empty() && !x.e.closed.Load() {
			x.watchGuests()
		}
		return
	}
	s.popped = popped
	cpus := x.e.total.cpu / oneCPU
	if excess := waits - max(begun*shedSoon, cpus); excess > 0 {
		x.mean.Store(max(x.mean.Load(), shedPause*cpus/max(begun, 1)))
		x.e.cfg.Pool.Go(giveBack{x, excess})
	}
	s.alarm.At = x.rt.Now() + shedPause
	x.rt.SetAlarm(&s.alarm)
}

// giveBack gives n guests back.
type giveBack struct {
	x *exchange
	n int64
}

// Run implements goroutines.Work.
func (g giveBack) Run() {
	for range g.n {
		c := g.x.guests.Pop()
		if c == nil {
			break
		}
		if c.Pending() {
			g.x.bounce(c.Work().(arrival))
		}
	}
	g.x.flush()
}
