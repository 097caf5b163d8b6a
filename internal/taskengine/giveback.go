package taskengine

import (
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
)

// inboundWatch gives back inbound tasks that would not begin soon. The number of tasks that a peer sends ahead rests on
// the mean duration of earlier tasks (see forwarding.Excess).
type inboundWatch struct {
	alarm  core.Alarm
	armed  atomic.Bool
	popped uint64 // inbound tasks begun until the last look
}

// watchInbound is called when an inbound task waits.
func (x *exchange) watchInbound() {
	w := &x.inboundWatch
	if w.armed.Load() || !w.armed.CompareAndSwap(false, true) {
		return
	}
	w.popped = x.inbound.Begun()
	w.alarm.Ring = x.lookAtInbound
	w.alarm.At = x.rt.Now() + int64(forwarding.LookPause)
	x.rt.SetAlarm(&w.alarm)
}

// lookAtInbound runs on the clock's goroutine.
func (x *exchange) lookAtInbound() {
	w := &x.inboundWatch
	popped := x.inbound.Begun()
	waits, begun := int64(x.inbound.Len()), int64(popped-w.popped)
	if waits <= 0 || x.e.closed.Load() {
		w.armed.Store(false)
		if !x.inbound.Empty() && !x.e.closed.Load() {
			x.watchInbound()
		}
		return
	}
	w.popped = popped
	x.e.order.see()
	cpus := max(x.e.line.Total()-x.e.line.Held(), 0) / oneCPU
	if excess := forwarding.Excess(waits, begun, cpus); excess > 0 {
		x.means.slower(int64(forwarding.SlowMean(begun, cpus)))
		x.e.cfg.Pool.Go(giveBackWork{x, excess})
	}
	w.alarm.At = x.rt.Now() + int64(forwarding.LookPause)
	x.rt.SetAlarm(&w.alarm)
}

// giveBackWork gives n inbound tasks back.
type giveBackWork struct {
	x *exchange
	n int64
}

// Run implements goroutines.Work.
func (g giveBackWork) Run() {
	for range g.n {
		c := g.x.inbound.PopLate()
		if c == nil {
			break
		}
		if c.Pending() {
			g.x.giveBack(c.Work().(arrival))
		}
	}
	g.x.flush()
}
