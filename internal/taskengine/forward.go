package taskengine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
)

// A forwarder takes tasks from the queue for other nodes, as a worker does for this one, when the CPUs here are taken
// and a peer has room. It is one goroutine, which exists while there are peers. A goroutine that waits for a task may
// do the forwarder's work.
//
//	state     what the forwarder knows                        leaves it when
//	asleep    no task waits that may leave                    a task waits: hinting; more than one: awake
//	hinting   one task waits, whose submitter may send it     it was sent: asleep; another waits, or hintPause is over: awake
//	awake     it sends tasks, round by round                  no task waits: asleep; no peer has room: stalled
//	stalled   tasks wait, and no peer has room                an answer, a report of load or a new peer comes: awake
//
// The state hinting is for a program that submits a task and then waits for it. Its goroutine sends the task, and the
// forwarder is not woken: the wake-up would cost more than everything else.
type forwarder struct {
	state atomic.Int32
	wake  chan struct{} // capacity 1, never closed

	hint      core.Alarm
	hinted    atomic.Bool
	retry     core.Alarm
	retrying  atomic.Bool
	lastCall  core.Alarm  // for tasks that no node can run
	dirty     atomic.Bool // something changed beyond the queue
	unflushed atomic.Bool

	mu   sync.Mutex // the right to send: guards the rest and the peers' skip
	out  outgoing
	draw forwarding.Draw
}

const (
	asleep int32 = iota
	hinting
	awake
	stalled
)

const (
	// hintPause is how long a single task may stay queued while its submitter does something else than wait for it.
	hintPause = int64(500 * time.Microsecond)
	// retryPause is how long nothing is sent to a peer whose link had no room, or that gave back a task which asks
	// for more than a CPU.
	retryPause = int64(5 * time.Millisecond)
)

func (f *forwarder) init(x *exchange) {
	f.wake = make(chan struct{}, 1)
	f.hint.Ring = func() {
		f.hinted.Store(false)
		f.wakeIfHinted()
	}
	f.retry.Ring = func() {
		f.retrying.Store(false)
		x.each(func(p *peer) {
			p.full.Store(false)
		})
		x.recheck()
	}
	f.lastCall.Ring = x.recheck
}

// taskWaits is called when a task waits and no CPU is free.
func (x *exchange) taskWaits() {
	switch x.state.Load() {
	case asleep:
		waits := int64(x.e.Queued()) + x.deferred.count.Load()
		if waits == 0 {
			return
		}
		if waits > 1 {
			x.wakeNow()
			return
		}
		if x.state.CompareAndSwap(asleep, hinting) && x.hinted.CompareAndSwap(false, true) {
			x.hint.At = x.rt.Now() + hintPause
			x.rt.SetAlarm(&x.hint)
		}
	case hinting:
		x.wakeIfHinted()
	}
}

// wakeIfHinted wakes the forwarder if a task has set the hint.
func (f *forwarder) wakeIfHinted() {
	if f.state.Load() == hinting && f.state.CompareAndSwap(hinting, awake) {
		f.signal()
	}
}

// wakeNow wakes the forwarder in any state.
func (f *forwarder) wakeNow() {
	if f.state.Swap(awake) != awake {
		f.signal()
	}
}

func (f *forwarder) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// workerIdle is called when a worker finds nothing to do.
func (x *exchange) workerIdle() {
	if x.owed.some.Load() {
		x.owed.tell(0)
	}
}

// pop takes a task of this node.
func (x *exchange) pop() *core.Future {
	if x.deferred.count.Load() > 0 {
		if c := x.deferred.pop(x.e); c != nil {
			return c
		}
	}
	return x.e.queue.Pop()
}

// retryLater lets the forwarder try peers that refused again after a retryPause.
func (x *exchange) retryLater() {
	if x.retrying.CompareAndSwap(false, true) {
		x.retry.At = x.rt.Now() + retryPause
		x.rt.SetAlarm(&x.retry)
	}
}

// recheck is called when something has changed that may have kept tasks here.
func (x *exchange) recheck() {
	x.dirty.Store(true)
	x.wakeNow()
}

// run is the forwarder's goroutine. It ends when stop is closed.
func (x *exchange) run(stop <-chan struct{}) {
	defer x.running.Done()
	for {
		x.dirty.Store(false)
		x.retryUnplaced()
		x.mu.Lock()
		x.sendStops()
		end := x.round()
		x.mu.Unlock()
		x.giveUp()
		x.flush()
		x.state.Store(end)
		// A task that was queued before the store found an awake forwarder and sent no signal.
		if !x.due(end) {
			select {
			case <-x.wake:
			case <-stop:
				return
			}
		}
		x.state.Store(awake)
		select {
		case <-stop:
			// New peers may have started another forwarder meanwhile. It sleeps while the state says awake, and the
			// signal that this goroutine took may have been meant for it.
			x.signal()
			return
		default:
		}
	}
}

// giveUp fails the tasks whose function has been unknown to every node for long.
func (x *exchange) giveUp() {
	if x.deferred.count.Load() == 0 {
		return
	}
	now := x.rt.Now()
	gone, again := x.deferred.hopeless(x, now)
	for _, c := range gone {
		x.unknown(c)
	}
	if again != 0 {
		x.rt.ClearAlarm(&x.lastCall)
		x.lastCall.At = again
		x.rt.SetAlarm(&x.lastCall)
	}
}

// due reports whether a forwarder that is about to sleep in state end must go on.
func (x *exchange) due(end int32) bool {
	switch {
	case x.dirty.Load() || x.stops.some():
		return true
	case x.e.closed.Load() || !x.cpusTaken():
		return false
	case end == stalled:
		return x.peerHasRoom()
	case x.e.queue.Empty() && !x.deferred.sendable(x):
		return false
	}
	for _, p := range *x.peers.Load() {
		if x.room(p).Tasks > 0 {
			return true
		}
	}
	return false
}

// cpusTaken reports whether no CPU here is free for the tasks that wait, so that they may go. A searching worker has
// taken its CPU already; it wakes the forwarder when it leaves tasks behind.
func (x *exchange) cpusTaken() bool {
	e := x.e
	if e.draining.Load() {
		return true
	}
	return e.searching.Load() == 0 && (e.line.CPU().Load() < oneCPU || e.line.Waits.Load() != 0 && e.line.Reserves())
}

// peerHasRoom reports whether a peer has room enough again to go on after a stall.
func (x *exchange) peerHasRoom() bool {
	for _, p := range *x.peers.Load() {
		if x.room(p).Tasks > 0 && p.plainFlights() <= p.low.Load() {
			return true
		}
	}
	return false
}

// sendNow is called by a goroutine that is about to wait for a task: it does the forwarder's work, so that the task
// leaves without a change of goroutines.
func (x *exchange) sendNow() {
	if x.state.Load() != hinting || !x.cpusTaken() || !x.mu.TryLock() {
		return
	}
	x.out.first = true
	end := x.round()
	corked := x.out.corked
	x.out.first, x.out.corked = false, nil
	x.mu.Unlock()
	if corked != nil {
		corked.uncork(true)
	}
	x.flush()
	if x.state.CompareAndSwap(hinting, end) && x.due(end) {
		x.wakeNow()
	}
}

// round sends tasks until none waits, a CPU here is free (asleep), or no peer has room (stalled). The caller holds the
// right to send.
func (x *exchange) round() int32 {
	x.each(func(p *peer) { p.skip = false })
	for {
		e := x.e
		if e.closed.Load() || e.queue.Empty() && x.deferred.count.Load() == 0 || !x.cpusTaken() {
			return asleep
		}
		p, n, skipped := x.pick()
		switch {
		case p != nil:
			if x.fill(p, n) == 0 {
				p.skip = true
			}
		case skipped: // no peer with room can run a waiting task
			x.owed.askLater()
			return asleep
		case x.stall():
			return stalled
		}
	}
}

// pick chooses the peer to send to and how many tasks.
func (x *exchange) pick() (chosen *peer, n int64, skipped bool) {
	list := *x.peers.Load()
	i, o := forwarding.Choose(len(list), &x.draw, func(i int) forwarding.Offer {
		o := x.room(list[i])
		if list[i].skip && o.Tasks > 0 {
			skipped, o = true, forwarding.Offer{}
		}
		return o
	})
	if i < 0 {
		return nil, 0, skipped
	}
	return list[i], o.Tasks, skipped
}

// stall prepares for a wait until a peer has answered enough tasks for another round to pay, or reports that it has
// room. It returns false where a peer has room by now: what was answered before low was set is not among the answers that
// the wait counts.
func (x *exchange) stall() bool {
	for _, p := range *x.peers.Load() {
		p.mu.Lock()
		mean := p.load.Mean
		p.mu.Unlock()
		p.low.Store(forwarding.Low(p.plainFlights(), mean))
	}
	p, _, skipped := x.pick()
	if p != nil || skipped {
		return false
	}
	x.owed.askLater()
	return true
}
