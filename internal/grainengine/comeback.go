package grainengine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// A call may come back over other nodes to a grain whose turn is above it in the chain of calls. This node does not see
// the waits between. A reentrant call is let in as soon as the turn waits. For another call this node asks the nodes on
// the way whether it closes a cycle: at once, and again after growing pauses, since the turn that made the call may
// begin to wait for it later.

// firstLook is the pause after the first question, lastLook the longest; each is four times the one before.
const (
	firstLook = time.Millisecond
	lastLook  = 4 * time.Second
)

// comeback is a queued call that came back.
type comeback struct {
	act   *activation
	call  *call
	armed atomic.Bool // alarm is set; the goroutine that sets it may write pause
	pause time.Duration
	alarm core.Alarm
}

// cameBack is called for each call that was queued, and notes one that came back.
func (in *turns) cameBack(c *call) {
	if up := c.Future.Up(); in.current.Load() == nil && in.inner.Load() == 0 || !up.FromElsewhere() || !in.isAbove(up) {
		return
	}
	b := &comeback{act: in.a, call: c, pause: firstLook}
	b.alarm.Ring = func() {
		b.armed.Store(false)
		b.look()
	}
	g := in.makeGate()
	g.mu.Lock()
	g.back = slices.DeleteFunc(g.back, (*comeback).over)
	g.back = append(g.back, b)
	g.mu.Unlock()
	b.look()
}

// isAbove reports whether up was called over another node by a turn that a is in.
func (in *turns) isAbove(up *core.Turn) bool {
	return slices.ContainsFunc(in.inProgress(), func(t *core.Turn) bool { return up.CalledUnder(t) })
}

func (b *comeback) over() bool { return !b.call.Future.Pending() || b.call.queuedAt() != b.act }

// look lets the call in, or begins a search for a cycle, where a turn above it waits. A turn that begins to wait later
// calls it again.
func (b *comeback) look() {
	up := b.call.Future.Up()
	for _, t := range b.act.inProgress() {
		switch {
		case b.over():
			return
		case !t.IsBlocked() || !up.CalledUnder(t):
		case b.call.method.reentrant:
			if b.act.admitChain(b.call, false) {
				return
			}
		case t.Job().Prober != nil:
			t.Job().Prober.Probe(t)
			if b.armed.CompareAndSwap(false, true) {
				b.alarm.At = t.Runtime().Now() + int64(b.pause)
				b.pause = min(4*b.pause, lastLook)
				t.Runtime().SetAlarm(&b.alarm)
			}
			return
		}
	}
}
