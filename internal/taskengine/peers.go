package taskengine

import (
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/runqueue"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// exchange returns the exchange, which is made when it is first needed.
func (e *Engine) exchange() *exchange {
	if x := e.net.Load(); x != nil {
		return x
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.net.Load()
	if x == nil {
		x = &exchange{e: e, rt: e.cfg.Runtime, inbound: runqueue.New(&e.order, nil), avoided: map[raysys.NodeID]bool{}}
		x.forwarder.init(x)
		x.owed.init(x)
		x.means.cpus = e.line.Total() / oneCPU
		x.peers.Store(new([]*peer))
		x.find.Store(&map[wire.Peer]*peer{})
		e.net.Store(x)
	}
	return x
}

// PeerUp tells the engine of a node that may run its tasks and send its own, before any frame of it is handled. Each
// incarnation of a node is a Peer of its own.
func (e *Engine) PeerUp(wp wire.Peer, info PeerInfo) {
	x := e.exchange()
	x.admin.Lock()
	if x.closed || (*x.find.Load())[wp] != nil {
		x.admin.Unlock()
		return
	}
	p := &peer{Peer: wp, x: x, cpus: ledger.Thousandths(info.Resources.CPU) / oneCPU, exports: wire.PendingExportsOf(wp), effect: core.Effect{Node: wp.Node()}}
	p.avoid.Store(x.avoided[wp.Node()])
	x.enter(append(slices.Clone(*x.peers.Load()), p))
	if x.stop == nil {
		x.stop = make(chan struct{})
		x.running.Add(1)
		go x.run(x.stop)
	}
	x.admin.Unlock()
	x.recheck()
}

// PeerDown tells the engine that the node, or the way to it, is gone; cause says why. What was in flight there is
// tried again elsewhere. No handler may be called for the peer after it.
func (e *Engine) PeerDown(wp wire.Peer, cause error) {
	x := e.net.Load()
	if x == nil {
		return
	}
	x.admin.Lock()
	p := (*x.find.Load())[wp]
	if p == nil {
		x.admin.Unlock()
		return
	}
	p.gone.Store(true)
	list := slices.DeleteFunc(slices.Clone(*x.peers.Load()), func(o *peer) bool { return o == p })
	x.enter(list)
	if len(list) == 0 && x.stop != nil {
		close(x.stop)
		x.stop = nil
	}
	x.admin.Unlock()
	p.drop(x)
	x.owed.remove(p)
	for _, f := range p.flights.Drain() {
		x.flightEnded(p, f)
		taskOf(f.task).lost(x, p.Node(), cause)
	}
	x.recheck()
	x.e.checkDrained()
}

// PeerLoad tells the engine how busy a peer is.
func (e *Engine) PeerLoad(wp wire.Peer, l loadreport.Load) {
	if x, p := e.peer(wp); p != nil {
		x.loaded(p, l)
		if l.Asks() {
			x.owed.add(p, core.Normal)
			x.owed.tell(0)
		}
		x.recheck()
	}
}

// avoidAsSeen has the peer get tasks, or none, as the view says.
func (p *peer) avoidAsSeen() {
	p.x.admin.Lock()
	p.avoid.Store(p.x.avoided[p.Node()])
	p.x.admin.Unlock()
	p.x.recheck()
}

// Avoid keeps new tasks from a node that is suspected to be dead, or draining, until it is called with false.
func (e *Engine) Avoid(node raysys.NodeID, avoid bool) {
	x := e.exchange()
	x.admin.Lock()
	if avoid {
		x.avoided[node] = true
	} else {
		delete(x.avoided, node)
	}
	for _, p := range *x.peers.Load() {
		if p.Node() == node {
			p.avoid.Store(avoid)
		}
	}
	x.admin.Unlock()
	x.recheck()
}

// peer finds what belongs to wp, nil when it is not up.
func (e *Engine) peer(wp wire.Peer) (*exchange, *peer) {
	x := e.net.Load()
	if x == nil {
		return nil, nil
	}
	return x, (*x.find.Load())[wp]
}

// LoadOf returns the load that the peer last reported, and the tasks of this node that it did not count: those sent
// since, less those answered since. Those in its line are in Line. known is false when it has reported none.
func (e *Engine) LoadOf(wp wire.Peer) (l loadreport.Load, since int, known bool) {
	_, p := e.peer(wp)
	if p == nil {
		return l, 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l = p.load
	l.Line = forwarding.LineWait(l.Line, int64(l.Shaped), p.shaped.Load()-(p.among-p.plain))
	return l, int(p.inflight.Load() - p.among), p.load != loadreport.Load{}
}

// HandleTasks takes a KindTasks frame of the peer. An error means that the frame is corrupt: the link must be closed.
func (e *Engine) HandleTasks(wp wire.Peer, frame []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := arrivals.Get().(*incoming)
	defer func() {
		*r = incoming{}
		arrivals.Put(r)
	}()
	r.Reader, r.accepts = wire.NewReader(frame), x.owed.accepts(p)
	r.Uvarint() // flags
	up := p.Turn(r.Uint32())
	if err := r.Err(); err != nil {
		return fmt.Errorf("tasks from node %s: %w", p.Node(), err)
	}
	var givenBack []uint64
	defer x.startInbound()
	for r.Len() > 0 {
		slot, ok, err := x.receive(p, up, r)
		if err != nil {
			return fmt.Errorf("tasks from node %s: %w", p.Node(), err)
		}
		if !ok {
			givenBack = append(givenBack, slot)
		}
	}
	if givenBack != nil {
		x.giveBackSlots(p, givenBack)
		if r.owes { // not before: word follows the answer
			x.owed.add(p, r.class)
			x.owed.tell(0)
		}
	}
	return nil
}

// HandleCancel takes a KindTaskCancel frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleCancel(wp wire.Peer, frame []byte) error {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := wire.NewReader(frame)
	for r.Len() > 0 {
		slot := taskwire.ReadSlot(&r)
		if err := r.Err(); err != nil {
			return fmt.Errorf("cancellations from node %s: %w", p.Node(), err)
		}
		if a := p.inbound.cancel(slot); a != nil {
			a.Future.Cancel(&core.Orphaned{Err: raysys.ErrCancelled})
		}
	}
	return nil
}

// HandleResult takes a KindTaskResult frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleResult(wp wire.Peer, frame []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := readers.Get().(*wire.Reader)
	defer putReader(r)
	*r = wire.NewReader(frame)
	if err := x.takeFrame(p, r); err != nil {
		return err
	}
	x.answered()
	return nil
}

// HandleResults takes a KindTaskResults frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleResults(wp wire.Peer, list []byte) error {
	x, p := e.peer(wp)
	if p == nil {
		return nil
	}
	l := resultBatches.Get().(*resultBatch)
	defer func() {
		*l = resultBatch{}
		resultBatches.Put(l)
	}()
	for all := wire.NewReader(list); all.Len() > 0; {
		if err := x.takeBatch(p, l, &all); err != nil {
			return err
		}
	}
	x.answered()
	return nil
}

// HandleFinal takes a KindTaskFinal frame of the peer; see HandleTasks for the error.
func (e *Engine) HandleFinal(wp wire.Peer, frame []byte) error {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	r := wire.NewReader(frame)
	dropped := false
	for r.Len() > 0 {
		id := r.ID()
		if err := r.Err(); err != nil {
			return err
		}
		if id == (core.TaskID{}) {
			dropped = true
			continue
		}
		switch t := p.waiting.take(id); {
		case t == nil:
		case dropped:
			t.Drop()
		default:
			t.Finish()
		}
	}
	return nil
}

// Report returns how busy this node is, what is free in its bundles (see loadreport.ReadRooms), and how many tasks of each peer that counts. news says
// that more are counted than in the last call.
func (e *Engine) Report(peers []wire.Peer) (l loadreport.Load, rooms string, received []loadreport.Received, news bool) {
	x := e.exchange()
	x.means.weighLine(e)
	x.arriving.Lock()
	defer x.arriving.Unlock()
	for _, wp := range peers {
		var n loadreport.Received
		if _, p := e.peer(wp); p != nil {
			n = loadreport.Received{Tasks: p.received.tasks.Load(), Roaming: p.received.roaming.Load()}
			news = n != p.reported || news
			p.reported = n
		}
		received = append(received, n)
	}
	if l = e.Load(); !l.Asks() {
		for _, wp := range peers {
			if _, p := e.peer(wp); p != nil {
				p.asked.Store(false) // what was to be the ask says no such thing
			}
		}
	}
	return l, e.rooms(), received, news
}

// Counted is called when a report of the peer counts that many tasks of this node (Received.Tasks). It reports whether some were not
// counted before.
func (e *Engine) Counted(wp wire.Peer, received uint64) bool {
	_, p := e.peer(wp)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uncounted.count(received)
}

// CountedRoaming is the same for Received.Roaming. It returns what those ask for that are left.
func (e *Engine) CountedRoaming(wp wire.Peer, received uint64) []ledger.Need {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roaming.count(received)
	return slices.Clone(p.roaming.needs)
}

// Uncounted returns what the tasks of this node ask for that may be in any bundle and that the last report of the peer does not count.
func (e *Engine) Uncounted(wp wire.Peer) []ledger.Need { return e.CountedRoaming(wp, 0) }

// EachUncounted calls f with what each task of this node asks for, beyond one CPU, that the last report of the peer does not count.
func (e *Engine) EachUncounted(wp wire.Peer, f func(raysys.Resources)) {
	_, p := e.peer(wp)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.uncounted.needs {
		needs := raysys.Resources(p.uncounted.needs[i].Resources())
		needs.CPU = max(needs.CPU-1, 0)
		f(needs)
	}
}

// Away returns the node that has a task of this node, and the number of the task there. It looks through all that is in
// flight, which a search does seldom.
func (e *Engine) Away(c *core.Future) (p wire.Peer, number uint64, ok bool) {
	x := e.net.Load()
	if x == nil || !c.Away() {
		return nil, 0, false
	}
	for wp, to := range *x.find.Load() {
		to.flights.Each(func(slot uint64, f flight) {
			if f.task == c {
				p, number, ok = wp, slot, true
			}
		})
		if ok {
			break
		}
	}
	return p, number, ok
}

// Inbound returns the task that p has here under its number, nil when it has none.
func (e *Engine) Inbound(wp wire.Peer, number uint64) *core.Future {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	if a := p.inbound.find(number); a != nil {
		return &a.Future
	}
	return nil
}
