package taskengine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/runqueue"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// PeerInfo is what a node offers to others.
type PeerInfo struct {
	Resources raysys.Resources
}

// exchange is the part of an engine that deals with other nodes. It is made when the first peer comes.
type exchange struct {
	e  *Engine
	rt core.Runtime

	peers   atomic.Pointer[[]*peer] // copied on write, under admin
	find    atomic.Pointer[map[wire.Peer]*peer]
	inbound *runqueue.Queue // tasks of other nodes that wait to start
	// unanswered counts tasks of other nodes. It is lowered before the answer of one is made: a load report that is
	// sent after the answer must not count that task. answering counts the answers that goroutines other than workers
	// are making: it is raised before unanswered is lowered, and a drain waits for it.
	unanswered, answering atomic.Int64
	unansweredShaped      atomic.Int64 // of unanswered, those that ask for other than one CPU
	parked                atomic.Int64 // of unanswered, those of one CPU that wait, and have given back their CPU
	away                  atomic.Int64 // tasks of this node that are elsewhere
	notOwn                atomic.Int64 // CPUs that workers hold for tasks of other nodes, or while they look for work
	means                 means
	deferred              deferred
	forwarder
	owed         owed
	stops        stops
	arriving     sync.RWMutex // a report is not made while a task that it should count comes
	inboundWatch inboundWatch

	admin   sync.Mutex // guards coming and going of peers, and the rest
	avoided map[raysys.NodeID]bool
	stop    chan struct{} // closed when the last peer goes; nil while there is none
	running sync.WaitGroup
	closed  bool
}

// peer is another node as this engine sees it.
type peer struct {
	wire.Peer
	x        *exchange // whose peer it is
	cpus     int64
	flights  wire.Slots[flight]
	inflight atomic.Int64
	shaped   atomic.Int64 // of inflight, those that ask for other than one CPU
	bytes    atomic.Int64 // of encoded arguments in flight
	low      atomic.Int64 // plain flights, below which more may be sent: set by a forwarder that stalls
	avoid    atomic.Bool
	gone     atomic.Bool
	unsent   atomic.Bool         // something was sent since the last Flush
	full     atomic.Bool         // it takes nothing; until its next load, or until retryPause has passed
	left     atomic.Int64        // it gave a task of one CPU back: until then it gets none, unless it tells its load
	owed     atomic.Bool         // it is owed word of a free CPU
	asked    atomic.Bool         // it was asked for room, and has not told its load since
	skip     bool                // has nothing to do in this round; guarded by the right to send
	exports  wire.PendingExports // references of the frame that is filled; guarded by the right to send

	mu        sync.Mutex // guards the next five
	load      loadreport.Load
	among     int64 // of the inbound tasks in load, how many this node takes for its own
	plain     int64 // of those that ask for one CPU, the same
	uncounted uncounted
	roaming   uncounted // those that may be in any bundle

	received struct{ tasks, roaming atomic.Uint64 } // see uncounted
	reported loadreport.Received                    // guarded by arriving

	meanSent         atomic.Int64  // the mean it was last sent
	repliesSinceLoad atomic.Uint32 // since it was sent this node's load
	inbound          inboundTable
	waiting          waitingTurns
	finals           finalTasks
	late             lateReplies
	effect           core.Effect // of a task there
}

// enter publishes the peers; the caller holds admin.
func (x *exchange) enter(list []*peer) {
	find := make(map[wire.Peer]*peer, len(list))
	for _, p := range list {
		find[p.Peer] = p
	}
	x.peers.Store(&list)
	x.find.Store(&find)
}

// hasWorkers reports whether some peer could run tasks.
func (x *exchange) hasWorkers() bool {
	return slices.ContainsFunc(*x.peers.Load(), func(p *peer) bool { return p.cpus > 0 })
}

// loaded records the load that a peer has reported.
func (*exchange) loaded(p *peer, l loadreport.Load) {
	p.mu.Lock()
	p.load, p.among = l, min(p.inflight.Load(), int64(l.Inbound))
	p.plain = min(p.plainFlights(), int64(l.Inbound-l.InboundShaped))
	p.mu.Unlock()
	p.full.Store(false)
	p.asked.Store(false)
	p.left.Store(0)
}

// plainFlights is how many tasks of one CPU are in flight.
func (p *peer) plainFlights() int64 { return max(p.inflight.Load()-p.shaped.Load(), 0) }

// flush sends what waits at the peers.
func (x *exchange) flush() {
	if !x.unflushed.Load() || !x.unflushed.Swap(false) {
		return
	}
	for _, p := range *x.peers.Load() {
		if p.unsent.Load() && p.unsent.Swap(false) {
			p.Flush()
		}
	}
}

// sent notes that p has something to flush.
func (x *exchange) sent(p *peer) {
	if !p.unsent.Load() {
		p.unsent.Store(true)
	}
	if !x.unflushed.Load() {
		x.unflushed.Store(true)
	}
}

// uncork is Uncork, and remembers that p was flushed.
func (p *peer) uncork(flush bool) {
	if flush {
		p.unsent.Store(false)
	}
	p.Uncork(flush)
}

// close ends the forwarder and all that is in flight.
func (x *exchange) close() {
	x.admin.Lock()
	x.closed = true
	list := *x.peers.Load() // they stay, so that what still comes from them is given back
	if x.stop != nil {
		close(x.stop)
		x.stop = nil
	}
	x.admin.Unlock()
	x.running.Wait()
	x.rt.ClearAlarm(&x.hint)
	x.rt.ClearAlarm(&x.retry)
	x.owed.close()
	x.rt.ClearAlarm(&x.lastCall)
	x.rt.ClearAlarm(&x.inboundWatch.alarm)
	for _, c := range x.deferred.drain(x.e) {
		c.Cancel(raysys.ErrClosed)
	}
	for _, p := range list {
		for _, f := range p.flights.Drain() {
			x.flightEnded(p, f)
			taskOf(f.task).closed()
		}
	}
}

// maxFlightBytes bounds what the arguments of the tasks in flight at one peer may take.
const maxFlightBytes = 32 << 20

// room returns what p has for the tasks that wait here.
func (x *exchange) room(p *peer) forwarding.Offer {
	known, ok := p.known()
	if !ok {
		return forwarding.Offer{}
	}
	return known.Offer(x.e.line.Total() == 0)
}

// known returns what this node knows of p, false where p takes no tasks now.
func (p *peer) known() (known forwarding.Peer, ok bool) {
	if p.cpus == 0 || p.avoid.Load() || p.gone.Load() || p.full.Load() || p.bytes.Load() > maxFlightBytes {
		return known, false
	}
	if left := p.left.Load(); left != 0 && left > p.x.rt.Now() {
		return known, false
	}
	p.mu.Lock()
	l, own, ownShaped := p.load, p.plain, p.among-p.plain
	p.mu.Unlock()
	if l.Draining {
		return known, false
	}
	// What asks for other than one CPU waits in the line of the peer, and takes nothing from these tasks but what it holds.
	held, shared := whole(l.Held), int64(0)
	if ownShaped <= 0 || int64(l.InboundShaped) > ownShaped { // with none but its own tasks this node has nothing to share
		shared = int64(l.Shared)
	}
	return forwarding.Peer{
		CPUs: max(p.cpus-held, 0), Inflight: p.plainFlights(),
		Queued: int64(l.Queued - l.Shaped), Inbound: int64(max(l.Inbound-l.InboundShaped, 0)), Own: own, Busy: max(whole(l.Busy)-held, 0), Parked: int64(l.Parked), Shared: shared, Mean: l.Mean,
	}, true
}

// whole is how many CPUs tasks of one CPU do not get where others have so much.
func whole(cpus float64) int64 { return (ledger.Thousandths(cpus) + oneCPU - 1) / oneCPU }

func (x *exchange) each(f func(*peer)) {
	for _, p := range *x.peers.Load() {
		f(p)
	}
}

// nodes are the peers by name, for messages.
func (x *exchange) nodes() []raysys.NodeID {
	set := map[raysys.NodeID]bool{}
	x.each(func(p *peer) { set[p.Node()] = true })
	return slices.Sorted(maps.Keys(set))
}

// answerError answers a task that cannot be run with why.
func (x *exchange) answerError(p *peer, slot uint64, err error) {
	x.answering.Add(1)
	x.answer(p, slot, false, func([]byte) ([]byte, error) { return nil, err })
	x.answering.Add(-1)
	x.e.checkDrained()
}

// giveBackSlots gives tasks back that were not taken in.
func (x *exchange) giveBackSlots(p *peer, slots []uint64) {
	frame := loadreport.AppendLoad([]byte{taskwire.ResultLoad}, x.e.Load())
	for _, slot := range slots {
		frame = append(taskwire.AppendSlot(frame, slot), taskwire.ResultGivenBack)
	}
	x.reply(p, frame, nil)
	x.flush()
}

// answer sends the owner of a task its outcome. waits is for resultWaits. body appends status and value, or returns an error in
// their place.
func (x *exchange) answer(p *peer, slot uint64, waits bool, body func([]byte) ([]byte, error)) {
	buf := x.beginAnswer(p, slot, waits)
	out, err := body(*buf)
	if err != nil {
		out = wire.AppendErrorTo(append(*buf, taskwire.ResultError), p.Peer, err)
	}
	x.endAnswer(p, buf, out, nil)
}

// beginAnswer returns a buffer with what comes before status and value.
func (x *exchange) beginAnswer(p *peer, slot uint64, waits bool) *[]byte {
	buf := frames.Get().(*[]byte)
	flags := byte(0)
	if waits {
		flags = taskwire.ResultWaits
	}
	dst := (*buf)[:0]
	if x.sendsLoad(p) {
		dst = loadreport.AppendLoad(append(dst, flags|taskwire.ResultLoad), x.e.Load())
	} else {
		dst = append(dst, flags)
	}
	*buf = taskwire.AppendSlot(dst, slot)
	return buf
}

// endAnswer sends out, which may lie in buf.
func (x *exchange) endAnswer(p *peer, buf *[]byte, out []byte, h *handing) {
	x.reply(p, out, h)
	if cap(out) <= 2*wire.InlineLimit {
		*buf = out
		frames.Put(buf)
	}
}

// sendsLoad reports whether the next answer brings the load: when the mean has changed so much that the peer's window
// is wrong, and now and then.
func (x *exchange) sendsLoad(p *peer) bool {
	mean, told := int64(x.means.mean()), p.meanSent.Load()
	if n := p.repliesSinceLoad.Add(1); n%repliesPerLoad != 0 && told != 0 && mean < told*2 && mean > told/2 {
		return false
	}
	p.meanSent.Store(mean)
	return true
}

// reply sends an answer: where h is not nil the worker that waits for it uncorks the peer. Answers are never dropped
// while the peer lives: the owner's future rests on them.
func (x *exchange) reply(p *peer, frame []byte, h *handing) {
	if p.late.waiting() {
		p.late.add(x, p, frame)
		return
	}
	corked := h != nil && len(frame) <= wire.InlineLimit && h.opened()
	if corked {
		p.Cork()
		corked = !h.keep()
	}
	err := x.trySend(p, frame)
	if corked {
		p.Uncork(false)
	}
	if errors.Is(err, raysys.ErrOverloaded) {
		p.late.add(x, p, frame)
	}
}

func (x *exchange) trySend(p *peer, frame []byte) error {
	if len(frame) > wire.InlineLimit {
		return p.SendLarge(wire.KindTaskResult, append([]byte(nil), frame...))
	}
	err := p.Send(wire.Replies, wire.KindTaskResult, frame)
	if err == nil {
		x.sent(p)
	}
	return err
}

func (x *exchange) tellFinal(p *peer) {
	l := &p.finals
	l.mu.Lock()
	ids, dropped := l.ids, l.dropped
	l.ids, l.dropped, l.armed = nil, nil, false
	l.mu.Unlock()
	p.tellFinal(nil, ids)
	p.tellFinal(wire.AppendID(nil, core.TaskID{}), dropped)
	p.Flush()
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

// startInbound wakes a worker for the inbound tasks that were queued.
func (x *exchange) startInbound() {
	if !x.inbound.Empty() {
		x.e.wake()
		x.watchInbound()
	}
}

// arrived counts n more tasks of other nodes that are to be answered.
func (x *exchange) arrived(plain bool, n int64) {
	if !plain {
		x.unansweredShaped.Add(n)
	}
	x.unanswered.Add(n)
}

// giveBack gives an inbound task that has not begun back to its owner. The caller has taken it out of the queue.
func (x *exchange) giveBack(a *inboundTask) {
	if !a.Future.Start() || !a.claimAnswer() {
		return
	}
	a.from.inbound.remove(a)
	x.answering.Add(1)
	x.arrived(a.spec.plain, -1)
	x.answer(a.from, a.slot, false, func(dst []byte) ([]byte, error) { return append(dst, taskwire.ResultGivenBack), nil })
	x.owed.add(a.from, a.Future.Class()) // word follows the answer
	x.answering.Add(-1)
	a.depart(x.e)
	a.drop()
	a.Future.Cancel(errGivenBack)
	x.e.checkDrained()
}

// giveBackQueued gives back all inbound tasks that have not begun.
func (x *exchange) giveBackQueued() {
	for c := x.inbound.Pop(); c != nil; c = x.inbound.Pop() {
		if c.Pending() {
			x.giveBack(c.Work().(*inboundTask))
		}
	}
	for _, w := range x.e.line.Remove(isInbound) {
		x.e.shaped.Add(-1)
		x.giveBack(w.(shaped).Work().(*inboundTask))
	}
	x.flush()
}

// serve records whether the CPU of s serves this node from now on.
func (x *exchange) serve(s *core.CPUSlot, own bool) {
	if s.NotOwn.Load() == !own || s.NotOwn.Swap(!own) == !own {
		return
	}
	if own {
		x.notOwn.Add(-1)
	} else {
		x.notOwn.Add(1)
	}
}

// unknown fails tasks whose function no node has.
func (x *exchange) unknown(c *core.Future) {
	fail := func(c *core.Future, entry *core.Entry) {
		c.Fail(fmt.Errorf("%w: %s is on no node that could run it (the nodes are %v): start the same program, or a version with the same types, on one of them",
			raysys.ErrUnknownFunc, entry, x.nodes()))
	}
	switch w := c.Work().(type) {
	case batch:
		for r := w.take(); r != nil; r = w.take() {
			fail(r, w.entry())
		}
	case *record:
		fail(c, w.entry())
	}
}

// place has Config.Place choose the node of a task that does not belong in the run queue, and sends it there or keeps
// it here.
func (x *exchange) place(w *record) {
	x.placeAgain(unplacedTask{task: w})
}

// placeAgain is place for a task that may have waited for a node. nowhere says that no node has what it asks for, however idle.
func (x *exchange) placeAgain(u unplacedTask) (nowhere bool) {
	c, w := &u.task.Future, u.task
	e, r := x.e, w.request()
	if u.avoid != "" {
		r.Avoid = []raysys.NodeID{u.avoid}
	}
	if w.spec.need.Bundle.Group != "" {
		e.placeInBundle(u)
		return false
	}
	if len(r.Options.Conditions) > 0 {
		if u.since == 0 {
			u.since = x.rt.Now()
		}
		r.Since = u.since
	}
	for {
		seen := x.deferred.retries.Load()
		to, err := e.cfg.Place(r)
		switch {
		case err != nil && e.mayPass(err, r.Options):
			x.deferUnplaced(u)
			if x.deferred.retries.Load() != seen { // Place may have looked at a view that is over: what the task waits for may have been
				e.RetryUnplaced()
			}
			return errors.Is(err, raysys.ErrNoCapacity)
		case err != nil && w.plain() && w.stay(e): // the run queue waits for nodes
		case err != nil:
			c.Fail(notPlaced(w.entry(), err))
		case to == nil:
			if err := e.fits(w.spec.need); err != nil {
				c.Fail(fmt.Errorf("place %s: %w", w.entry(), err))
				return false
			}
			if !w.stay(e) {
				e.pushShaped(c, w.spec.need)
			}
		default:
			if _, p := e.peer(to); p != nil && x.sendTo(p, w) {
				return false
			}
			// The values need not wait for one node when another can have them brought.
			if len(r.Inputs) > 0 && !slices.Contains(r.Avoid, to.Node()) {
				r.Avoid = append(r.Avoid, to.Node())
				continue
			}
			x.deferUnplaced(u)
			x.retryLater()
		}
		return false
	}
}

// sendAhead sends a task that makes a lost value again to a node that is full, or not: what fills it may be tasks which wait
// for that value. It returns false when no node takes it now: then it waits as any task does.
func (x *exchange) sendAhead(w *record) bool {
	to, err := x.e.cfg.Place(w.request())
	if err != nil || to == nil {
		return false
	}
	_, p := x.e.peer(to)
	return p != nil && x.sendTo(p, w)
}

// deferUnplaced keeps a task that has no node until the view changes.
func (x *exchange) deferUnplaced(u unplacedTask) {
	if u.since == 0 {
		u.since = x.rt.Now()
	}
	x.deferred.mu.Lock()
	defer x.deferred.mu.Unlock()
	x.e.unqueued.Add(1)
	x.deferred.unplaced = append(x.deferred.unplaced, u)
}

// sendTo sends one task to p; false when p does not take it.
func (x *exchange) sendTo(p *peer, w *record) bool {
	if _, ok := p.Runs(w.entry()); !ok || p.full.Load() || p.inflight.Load() >= forwarding.MaxFlights {
		return false
	}
	x.mu.Lock()
	x.out.p, x.out.entry = p, nil
	x.add(p, w)
	x.ship()
	x.out.p = nil
	x.mu.Unlock()
	x.flush()
	return true
}

// retryUnplaced places the tasks again that have no node. The caller does not hold the right to send.
func (x *exchange) retryUnplaced() {
	x.deferred.retries.Add(1)
	x.deferred.mu.Lock()
	list := x.deferred.unplaced
	x.deferred.unplaced = nil
	x.deferred.mu.Unlock()
	x.e.unqueued.Add(-int64(len(list)))
	nowhere := map[*core.Options]bool{} // of tasks of one handle all go somewhere, or none does
	for _, w := range list {
		switch o := w.task.request().Options; {
		case !w.task.Future.Pending():
		case nowhere[o]:
			x.deferUnplaced(w)
		case x.placeAgain(w):
			nowhere[o] = true
		}
	}
}

// receive takes one task; false gives it back.
func (x *exchange) receive(p *peer, up *core.Turn, in *incoming) (slot uint64, ok bool, err error) {
	r := &in.Reader
	fn, seq, h, err := taskwire.ReadTask(r)
	if err != nil {
		return 0, false, err
	}
	entry := p.Entry(fn)
	if entry == nil {
		return 0, false, fmt.Errorf("%w: no function has the number %d", wire.ErrCorrupt, fn)
	}
	task, known := entry.Impl.(*spec)
	if !known {
		return 0, false, fmt.Errorf("%w: %s is no task", wire.ErrCorrupt, entry)
	}
	// A task may arrive before its turn, over the bulk connection. It is given back, as are tasks for which there is
	// no room: their node sends them again.
	plain := h.Plain()
	refuse := up == nil || x.owed.gives() || plain && in.accepts == 0
	if counted(&h) {
		x.arriving.RLock()
		defer func() {
			p.receivedCounted(h.Need)
			x.arriving.RUnlock()
		}()
	}
	switch {
	case refuse && plain:
		in.owe(classOf(up, &h))
	case plain:
		in.accepts--
	}
	if refuse && task.skip(r) {
		slot, err = slotOf(r)
		return slot, false, err
	}
	a, bad := task.receive(x, p, up, seq, h, in)
	if slot, err = slotOf(r); err != nil {
		return 0, false, err
	}
	switch {
	case refuse:
	case bad != nil:
		x.answerError(p, slot, &raysys.TaskError{
			Task: up.ID().Child(seq), Function: entry.Name, Node: up.Job().Node, Attempt: h.Attempt, Err: bad,
		})
	case h.Need != nil && x.e.fits(*h.Need) != nil:
		x.answerError(p, slot, fmt.Errorf("run %s on node %s: %w", entry, up.Job().Node, x.e.fits(*h.Need)))
	default:
		a.accept(slot)
	}
	return slot, !refuse, nil
}

// takeBatch takes in the first results of a list.
func (x *exchange) takeBatch(p *peer, l *resultBatch, all *wire.Reader) error {
	l.n = 0
	for l.n < resultBatchSize && all.Len() > 0 {
		r := &l.results[l.n]
		*r = wire.NewReader(all.Bytes())
		if err := all.Err(); err != nil {
			return fmt.Errorf("results from node %s: %w", p.Node(), err)
		}
		waits, err := x.resultHead(p, r)
		if err != nil {
			return err
		}
		if r.Len() == 0 {
			continue
		}
		l.slots[l.n], l.waits[l.n] = taskwire.ReadSlot(r), waits
		if err := r.Err(); err != nil {
			return fmt.Errorf("result from node %s: %w", p.Node(), err)
		}
		l.n++
	}
	p.flights.TakeAll(l.slots[:l.n], l.flights[:], l.found[:])
	// Before any of them is settled: the program may submit again then, and wait for room.
	x.flightsEnded(p, l)
	var bad error
	for i := range l.n {
		if l.waits[i] && l.found[i] {
			x.waitsAt(p, l.flights[i].task)
		}
		err := x.settleFlight(p, &l.results[i], l.flights[i], l.found[i])
		if err == nil {
			err = x.takeRest(p, &l.results[i], false)
		}
		if err != nil && bad == nil { // the link will be closed; the flights that were taken out are settled nevertheless
			bad = fmt.Errorf("result from node %s: %w", p.Node(), err)
		}
	}
	return bad
}

// flightsEnded is flightEnded for all that were found.
func (x *exchange) flightsEnded(p *peer, l *resultBatch) {
	var n, bytes, same, shaped int64
	var of *group
	for i := range l.n {
		if !l.found[i] {
			continue
		}
		f := &l.flights[i]
		n++
		bytes += int64(f.size)
		if f.shaped {
			shaped++
		}
		if f.group != of {
			x.release(p, of, same)
			of, same = f.group, 0
		}
		same++
	}
	x.release(p, of, same)
	x.away.Add(-n)
	p.inflight.Add(-n)
	if shaped > 0 {
		p.shaped.Add(-shaped)
	}
	p.bytes.Add(-bytes)
}

func (x *exchange) takeFrame(p *peer, r *wire.Reader) error {
	waits, err := x.resultHead(p, r)
	if err != nil {
		return err
	}
	if err := x.takeRest(p, r, waits); err != nil {
		return fmt.Errorf("result from node %s: %w", p.Node(), err)
	}
	return nil
}

// resultHead reads what comes before the results. waits says that something waits at p for the first of their tasks.
func (x *exchange) resultHead(p *peer, r *wire.Reader) (waits bool, err error) {
	flags := r.Uvarint()
	if flags&taskwire.ResultLoad != 0 {
		l, err := loadreport.ReadLoad(r)
		if err != nil {
			return false, fmt.Errorf("load of node %s: %w", p.Node(), err)
		}
		x.loaded(p, l)
	}
	if err := r.Err(); err != nil {
		return false, fmt.Errorf("result from node %s: %w", p.Node(), err)
	}
	return flags&taskwire.ResultWaits != 0, nil
}

// takeRest takes the results that follow; waits is for the first.
func (x *exchange) takeRest(p *peer, r *wire.Reader, waits bool) error {
	for r.Len() > 0 {
		if err := x.takeNext(p, r, waits); err != nil {
			return err
		}
		waits = false
	}
	return r.Err()
}

// waitsAt has p told when the task is final.
func (x *exchange) waitsAt(p *peer, c *core.Future) {
	c.TurnFor().WhenFinal(&finalTask{x, p, c.RunID()})
}

// answered is called when results have come: there may be room for more tasks.
func (x *exchange) answered() {
	switch x.state.Load() {
	case awake:
	case stalled:
		if x.peerHasRoom() {
			x.wakeNow()
		}
	default:
		// No peer that had room could run the deferred tasks.
		if x.deferred.sendable(x) {
			x.wakeNow()
		}
	}
	x.e.checkDrained()
}

// takeNext takes one result. That of a slot that was answered before, or never used, changes nothing.
func (x *exchange) takeNext(p *peer, r *wire.Reader, waits bool) error {
	slot := taskwire.ReadSlot(r)
	if err := r.Err(); err != nil {
		return err
	}
	f, found := p.flights.Take(slot)
	if found {
		// The program may submit again before this returns, and wait for room.
		x.flightEnded(p, f)
		if waits {
			x.waitsAt(p, f.task)
		}
	}
	return x.settleFlight(p, r, f, found)
}

// settleFlight takes in what follows a slot; f was in flight under it if found is set.
func (x *exchange) settleFlight(p *peer, r *wire.Reader, f flight, found bool) error {
	var w *record
	if found {
		w = taskOf(f.task)
	}
	status := r.Byte()
	if err := r.Err(); err != nil {
		if found {
			w.lost(x, p.Node(), err)
		}
		return err
	}
	switch status {
	case taskwire.ResultValueEffects:
		if found {
			w.hadEffects(&p.effect)
		}
		status = taskwire.ResultValue
	case taskwire.ResultErrorEffects:
		if found {
			w.hadEffects(&p.effect)
		}
		status = taskwire.ResultError
	}
	switch status {
	case taskwire.ResultValue:
		if !found {
			r.Rest()
			return nil
		}
		if err := w.resolveFrom(r, p, p.Node()); err != nil {
			w.lost(x, p.Node(), err)
			return err
		}
	case taskwire.ResultError:
		err := wire.ReadError(r)
		switch {
		case !found:
		case r.Err() != nil:
			w.lost(x, p.Node(), r.Err())
		default:
			w.failedThere(p, err)
		}
	case taskwire.ResultGivenBack:
		if found {
			if w.mayQueue() && x.e.line.Total() > 0 { // a node without CPUs takes its turn where all is taken
				p.leaveAlone()
			} else {
				x.markFull(p)
			}
			x.deferAgain(unplacedTask{task: w, avoid: p.Node()})
		}
	case taskwire.ResultLost:
		if found {
			p.avoid.Store(true)
			w.lost(x, p.Node(), errClosing)
		}
	default:
		err := fmt.Errorf("%w: a result of status %d", wire.ErrCorrupt, status)
		if found {
			w.lost(x, p.Node(), err)
		}
		return err
	}
	return nil
}

// roamsOn places a task again that was given back since a bundle of another node has room, or since there is none in which it was to be. The
// node that gave it back takes no other for a pause, so that it does not go to and fro.
func (x *exchange) roamsOn(u unplacedTask) {
	e := x.e
	e.unqueued.Add(1)
	e.cfg.Pool.Go(goroutines.Func(func() {
		e.unqueued.Add(-1)
		if u.task.Future.Pending() {
			e.placeInBundle(u)
		}
		e.checkDrained()
	}))
}

// stopped is called when a task in flight was cancelled.
func (x *exchange) stopped(c *core.Future) {
	x.stops.mu.Lock()
	if x.stops.futures == nil {
		x.stops.futures = map[*core.Future]bool{}
	}
	x.stops.futures[c] = true
	x.stops.mu.Unlock()
	x.wakeNow()
}

// sendStops tells the peers which of their tasks were cancelled. The caller holds the right to send, so that a task
// that was claimed for sending before it was cancelled has been entered by now.
func (x *exchange) sendStops() {
	all := x.stops.take()
	if len(all) == 0 {
		return
	}
	for _, p := range *x.peers.Load() {
		var slots []uint64
		p.flights.Each(func(slot uint64, f flight) {
			if all[f.task] {
				slots = append(slots, slot)
			}
		})
		for part := range slices.Chunk(slots, forwarding.MaxFrame) {
			var frame []byte
			for _, slot := range part {
				frame = taskwire.AppendSlot(frame, slot)
			}
			// A peer that takes no control frame is gone, or goes on until it is done; the future has settled either
			// way.
			_ = p.Send(wire.Control, wire.KindTaskCancel, frame)
			x.sent(p)
		}
	}
}

// drop drops the answers that wait for a peer that is gone.
func (p *peer) drop(x *exchange) {
	p.gone.Store(true)
	p.waiting.end()
	p.late.mu.Lock()
	x.rt.ClearAlarm(&p.late.alarm)
	p.late.frames = nil
	p.late.some.Store(false)
	p.late.mu.Unlock()
}

func (p *peer) tellFinal(head []byte, ids []core.TaskID) {
	for list := range slices.Chunk(ids, forwarding.MaxFrame) {
		frame := slices.Clone(head)
		for _, id := range list {
			frame = wire.AppendID(frame, id)
		}
		_ = p.Send(wire.Control, wire.KindTaskFinal, frame) // one that is lost leaves replies behind
	}
}

// uncountedOf is where a task with that need is. The caller holds mu.
func (p *peer) uncountedOf(n *ledger.Need) *uncounted {
	if n.Roams() {
		return &p.roaming
	}
	return &p.uncounted
}

// sentCounted notes that a task was put into a frame.
func (p *peer) sentCounted(n *ledger.Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.uncountedOf(n)
	u.needs = append(u.needs, *n)
}

// unsentCounted takes the last task with such a need back, whose frame the peer did not take.
func (p *peer) unsentCounted(n *ledger.Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.uncountedOf(n); len(u.needs) > 0 {
		u.needs = u.needs[:len(u.needs)-1]
	} else { // the peer has said that it counts it
		u.counted--
	}
}

// receivedCounted notes that a task has come, and is in the ledger or was refused.
func (p *peer) receivedCounted(n *ledger.Need) {
	if n.Roams() {
		p.received.roaming.Add(1)
	} else {
		p.received.tasks.Add(1)
	}
}
