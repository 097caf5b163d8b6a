package taskengine

import (
	"slices"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
)

// inboundWatch gives back inbound tasks that would not begin soon (see forwarding.Excess): the number of tasks that a peer sends ahead rests on
// the mean duration of earlier tasks. And of those that may wait those for which another node has an idle CPU.
type inboundWatch struct {
	alarm  core.Alarm
	armed  atomic.Bool
	popped uint64 // inbound tasks begun, or given back, until the last look
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
	x.e.order.See()
	cpus := max(x.e.line.Total()-x.e.line.Held()+x.e.line.Shared(), 0) / oneCPU
	g := giveBackWork{x, forwarding.Excess(waits, begun, cpus), forwarding.Excess(waits, begun, 0)}
	if g.excess > 0 {
		x.means.slower(int64(forwarding.SlowMean(begun, cpus)))
	}
	if g.late > 0 {
		x.e.cfg.Pool.Go(g)
	}
	w.alarm.At = x.rt.Now() + int64(forwarding.LookPause)
	x.rt.SetAlarm(&w.alarm)
}

// giveBackWork gives inbound tasks back: so many, and of those that are late, too, as many as other nodes have idle CPUs for.
type giveBackWork struct {
	x            *exchange
	excess, late int64
}

// Run implements goroutines.Work.
func (g giveBackWork) Run() {
	for range g.excess {
		c := g.x.inbound.PopLate()
		if c == nil {
			break
		}
		if c.Pending() {
			g.x.giveBack(c.Work().(*inboundTask))
		}
	}
	g.x.giveBackTo(g.x.idlePeers(), g.late-max(g.excess, 0))
	g.x.flush()
}

// idlePeer is a peer with CPUs that have nothing to do, by its last report.
type idlePeer struct {
	*peer
	cpus int64
}

func (x *exchange) idlePeers() (list []idlePeer) {
	x.each(func(p *peer) {
		if known, ok := p.known(); ok {
			if idle, _ := known.Room(false); idle > 0 {
				list = append(list, idlePeer{p, idle})
			}
		}
	})
	return list
}

// giveBackTo gives back at most so many inbound tasks: those that an idle peer may run.
func (x *exchange) giveBackTo(list []idlePeer, most int64) {
	var stay []*core.Future
	for ; most > 0 && len(list) > 0; most-- {
		c := x.inbound.PopLate()
		if c == nil {
			break
		}
		t := taskOf(c)
		runs := func(p idlePeer) bool {
			_, ok := p.Runs(t.entry())
			return ok
		}
		labelled := len(t.request().Options.Labels) > 0
		switch i := slices.IndexFunc(list, runs); {
		case !c.Pending():
		case i < 0 || t.stays() || labelled && !x.e.roomElsewhere(t, true):
			stay = append(stay, c)
		default:
			x.giveBack(c.Work().(*inboundTask))
			if list[i].cpus--; list[i].cpus == 0 {
				list = slices.Delete(list, i, i+1)
			}
		}
	}
	for _, c := range slices.Backward(stay) {
		x.e.order.GiveBack(x.inbound, c)
	}
	if len(stay) > 0 {
		x.e.wake()
	}
}
