package taskengine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/runqueue"
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
	full     atomic.Bool         // it refused a task; until its next frame, or until retryPause has passed
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

// enter publishes the peers; the caller holds admin.
func (x *exchange) enter(list []*peer) {
	find := make(map[wire.Peer]*peer, len(list))
	for _, p := range list {
		find[p.Peer] = p
	}
	x.peers.Store(&list)
	x.find.Store(&find)
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
		x.recheck()
	}
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
