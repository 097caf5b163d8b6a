package taskengine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// flight is one task at a peer.
type flight struct {
	task  *core.Future
	group *group
	size  int

	counted bool // by the receiver: see uncounted
	shaped  bool // it asks for other than one CPU
}

// group are the tasks of one frame, which have the submitting turn in common.
type group struct {
	scope uint32
	open  atomic.Int64 // tasks in flight, and filling until the frame is sent
}

// filling keeps the turn of a group open that is not counted yet.
const filling = 1 << 32

// outgoing is the frame that is being filled.
type outgoing struct {
	p     *peer // nil while there is none
	turn  *core.Turn
	group *group
	buf   []byte
	head  int      // where the tasks begin
	count int64    // tasks of the group that the accounts do not show yet
	shape int64    // of these, the ones that ask for other than one CPU
	bytes int64    // and the bytes of their arguments
	slots []uint64 // of the tasks in buf
	fn    uint32   // number of entry at p
	entry *core.Entry

	first  bool  // the next frame is the first of a goroutine that flushes as soon as it has given up the right to send
	corked *peer // with that frame; nil once there is another, which may be long in the making
}

// flightEnded updates the counters for a flight that has ended.
func (x *exchange) flightEnded(p *peer, f flight) (inflight int64) {
	x.away.Add(-1)
	inflight = p.inflight.Add(-1)
	if f.shaped {
		p.shaped.Add(-1)
	}
	p.bytes.Add(-int64(f.size))
	x.release(p, f.group, 1)
	return inflight
}

func (x *exchange) release(p *peer, g *group, n int64) {
	if n > 0 && g.open.Add(-n) == 0 {
		p.Shut(g.scope)
	}
}

// account counts the tasks that are about to be sent: once for many, since the goroutines that take answers use the
// same counters. While a frame is being filled, one more task counts as away.
func (x *exchange) account() {
	o := &x.out
	if o.count == 0 {
		return
	}
	x.away.Add(o.count)
	o.p.inflight.Add(o.count)
	o.p.bytes.Add(o.bytes)
	o.group.open.Add(o.count)
	if o.shape > 0 {
		o.p.shaped.Add(o.shape)
	}
	o.count, o.bytes, o.shape = 0, 0, 0
}

// fill sends p up to n of the waiting tasks, and returns how many. Tasks that p cannot run move from the queue to the
// deferred ones. Those count as unqueued, so that submissions wait when they have grown to a queue's size. The caller
// holds the right to send.
func (x *exchange) fill(p *peer, n int64) (sent int64) {
	x.out.p, x.out.entry = p, nil
	defer func() {
		x.ship()
		x.out.p = nil
	}()
	e := x.e
	for sent < n {
		var c *core.Future
		if !e.order.Mixed() || !e.order.AboveIn(core.Normal, e.queue) {
			c = x.deferred.popFor(e, p)
		}
		if c == nil {
			if c = e.queue.Pop(); c == nil {
				break
			}
			if e.waiting.Load() != 0 {
				e.signalRoom()
			}
		}
		switch w := c.Work().(type) {
		case batch:
			if _, ok := p.Runs(w.entry()); !ok {
				x.deferred.put(e, w.entry(), c)
				continue
			}
			for sent < n {
				r := w.take()
				if r == nil {
					break
				}
				sent += x.add(p, taskOf(r))
			}
			if w.hasMore() {
				e.queue.Push(c)
			}
		case *record:
			sent += x.add(p, w)
		}
		if p.gone.Load() || p.full.Load() {
			break
		}
	}
	return sent
}

// markFull notes that p takes no more tasks for the moment.
func (x *exchange) markFull(p *peer) {
	p.full.Store(true)
	x.retryLater()
}

// add puts one task into the frame, and returns how many are on the way now: 1 or 0.
func (x *exchange) add(p *peer, w *record) int64 {
	o := &x.out
	if entry := w.entry(); entry != o.entry {
		fn, ok := p.Runs(entry)
		if !ok {
			x.deferred.put(x.e, entry, &w.Future)
			return 0
		}
		o.entry, o.fn = entry, fn
	}
	if !w.Future.Pending() {
		return 0 // cancelled, or begun in place
	}
	if up := w.Future.Up(); o.group == nil || o.turn != up {
		x.ship()
		scope, err := p.Open(up)
		if err != nil {
			x.unopened(p, w, err)
			return 0
		}
		x.sent(p)
		o.turn, o.group = up, &group{scope: scope}
		o.group.open.Store(filling)
		x.away.Add(1)
		o.begin()
	}
	if !w.Future.StartAway() {
		return 0
	}
	w.depart(x.e)
	if w.ended() {
		return 0
	}
	start, mark := len(o.buf), p.exports.Mark()
	var head taskwire.Head
	buf := o.buf
	if w.headless() {
		buf = taskwire.AppendHeadless(buf, o.fn, w.Future.Seq())
	} else {
		head = w.head(x.rt)
		buf = taskwire.AppendHead(buf, o.fn, w.Future.Seq(), head)
	}
	args := len(buf)
	buf, err := w.appendArg(buf, p.exports)
	if err != nil {
		p.exports.TakeBack(mark, p.exports.Mark())
		x.unsendable(p, w, err)
		return 0
	}
	f := flight{task: &w.Future, group: o.group, size: len(buf) - args, counted: counted(&head), shaped: head.Need != nil}
	slot, ok := x.takeOff(p, f)
	if !ok { // it went down just now
		p.exports.TakeBack(mark, p.exports.Mark())
		x.deferAgain(unplacedTask{task: w})
		return 0
	}
	if f.counted {
		p.sentCounted(head.Need)
	}
	buf = taskwire.AppendSlot(buf, slot)
	switch {
	case f.size > wire.InlineLimit:
		return x.addLarge(p, slot, buf[start:], mark)
	case len(buf) > wire.InlineLimit && start > o.head:
		o.buf = buf
		x.split(start, mark)
	default:
		o.buf = buf
	}
	o.slots = append(o.slots, slot)
	if len(o.slots) >= forwarding.MaxFrame || len(o.buf) > wire.InlineLimit/2 {
		x.ship()
	}
	return 1
}

// takeOff gives a task that is about to be sent its number; false when the peer is gone.
func (x *exchange) takeOff(p *peer, f flight) (slot uint64, ok bool) {
	if slot, ok = p.flights.Put(f); ok {
		x.out.count++
		x.out.bytes += int64(f.size)
		if f.shaped {
			x.out.shape++
		}
	}
	return slot, ok
}

// begin writes the head of a frame.
func (o *outgoing) begin() {
	o.buf = taskwire.AppendTasks(o.buf[:0], o.group.scope)
	o.head = len(o.buf)
	o.slots = o.slots[:0]
}

// split sends the tasks before start, whose pending exports are those before mark, and begins the next frame of the
// same group with those that follow.
func (x *exchange) split(start, mark int) {
	o := &x.out
	last := append([]byte(nil), o.buf[start:]...)
	o.buf = o.buf[:start]
	x.send(o.buf, mark)
	o.begin()
	o.buf = append(o.buf, last...)
}

// ship sends the frame as it is and ends its group.
func (x *exchange) ship() {
	o := &x.out
	if o.group == nil {
		return
	}
	if len(o.buf) > o.head {
		x.send(o.buf, o.p.exports.Mark())
	}
	x.account()
	if x.away.Add(-1) == 0 { // its tasks have ended already
		x.e.checkDrained()
	}
	if o.group.open.Add(-filling) == 0 {
		o.p.Shut(o.group.scope)
	}
	o.group, o.turn = nil, nil
	o.slots = o.slots[:0]
	if cap(o.buf) > 4*wire.InlineLimit {
		o.buf = nil
	}
}

// send sends a frame whose pending exports are those before mark.
func (x *exchange) send(frame []byte, mark int) {
	o := &x.out
	x.account()
	if o.first {
		o.first, o.corked = false, o.p
		o.p.Cork()
	} else if o.corked != nil {
		o.corked.Uncork(false)
		o.corked = nil
	}
	if err := o.p.Send(wire.Requests, wire.KindTasks, frame); err != nil {
		o.p.exports.TakeBack(0, mark)
		x.notSent(o.p, o.slots)
		return
	}
	o.p.exports.Sent(0, mark)
	x.sent(o.p)
}

// addLarge sends a task with a large argument, whose pending exports are those behind mark, in a frame of its own.
func (x *exchange) addLarge(p *peer, slot uint64, task []byte, mark int) int64 {
	frame := make([]byte, 0, len(task)+16)
	frame = append(taskwire.AppendTasks(frame, x.out.group.scope), task...)
	x.account()
	if err := p.SendLarge(wire.KindTasks, frame); err != nil {
		p.exports.TakeBack(mark, p.exports.Mark())
		x.notSent(p, []uint64{slot})
		return 0
	}
	p.exports.Sent(mark, p.exports.Mark())
	return 1
}

// notSent takes tasks back whose frame the peer did not take. PeerDown has taken those that it found in flight.
func (x *exchange) notSent(p *peer, slots []uint64) {
	x.markFull(p)
	for _, slot := range slots {
		if f, ok := p.flights.Take(slot); ok {
			if f.counted {
				p.unsentCounted(&taskOf(f.task).spec.need)
			}
			x.flightEnded(p, f)
			x.deferAgain(unplacedTask{task: taskOf(f.task)})
		}
	}
}

// deferAgain returns a claimed task that no node has begun to the deferred ones.
func (x *exchange) deferAgain(u unplacedTask) {
	w := u.task
	switch {
	case !w.unstart(x.e):
	case u.avoid != "" && w.spec.need.Roams():
		x.roamsOn(u)
	case !w.mayQueue():
		x.deferUnplaced(u)
		x.retryLater()
	default:
		x.putBack(w)
	}
}

// putBack has a task wait again that was popped for a peer, by its class.
func (x *exchange) putBack(w *record) {
	if !x.e.queue.Return(&w.Future) {
		x.deferred.put(x.e, w.entry(), &w.Future)
	}
	x.e.wake()
}

// unopened handles a turn that could not be opened at the peer.
func (x *exchange) unopened(p *peer, w *record, err error) {
	switch {
	case w.Future.Up().Cancelled() != nil:
		w.Future.Cancel(w.Future.Up().Cancelled())
	case errors.Is(err, raysys.ErrEncode), errors.Is(err, raysys.ErrTooLarge):
		if w.Future.StartAway() {
			w.depart(x.e)
			x.unsendable(p, w, err)
		}
	default:
		x.markFull(p)
		if !w.mayQueue() {
			x.deferUnplaced(unplacedTask{task: w})
			return
		}
		x.putBack(w)
	}
}

// unsendable handles a claimed task that cannot travel: it runs here, or fails.
func (x *exchange) unsendable(p *peer, w *record, err error) {
	switch {
	case errors.Is(err, raysys.ErrNotDelivered):
		x.markFull(p)
		x.deferAgain(unplacedTask{task: w})
	case w.spec.need.Bundle.Group != "":
		w.settleFailed(fmt.Errorf("send %s %s to node %s, which has its bundle: %w", w.entry(), w.Future.ID(), p.Node(), err))
	case x.e.fits(w.spec.need) != nil:
		w.settleFailed(fmt.Errorf("send %s %s to node %s, since this one cannot run it: %w", w.entry(), w.Future.ID(), p.Node(), err))
	case !w.unstart(x.e), w.stay(x.e):
	case w.mayQueue():
		x.deferred.putOwn(x.e, &w.Future)
		x.e.wake()
	default:
		x.e.pushBound(&w.Future, w.spec.need)
	}
}
