package grains_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
)

// fakeNet is several engines in one process: their registry, their store and the links between them.
type fakeNet struct {
	t     testing.TB
	table *raysys.Table
	store *fakeStore
	job   raysys.JobID

	mu     sync.Mutex // guards the rest
	nodes  []*fakeNode
	places map[grains.ID]grains.Place
	seq    uint64
	links  []*fakeLink
	choose func(id grains.ID, asks *fakeNode, alive []*fakeNode) *fakeNode // nil: round about
	turn   int
	counts map[string]int
	fault  func(op string, asks *fakeNode, id grains.ID) error // before the registry does anything
	wants  []grains.Wanted
	slow   func(op string) <-chan struct{} // done is called when it closes; nil for at once
	onWire func(l *fakeLink, from *fakeNode, kind wire.Kind, frame []byte)
	calls  sync.WaitGroup // answers on their way
	large  int            // frames that went by SendLarge
}

func newNet(t testing.TB, table *raysys.Table) *fakeNet {
	net := &fakeNet{t: t, table: table, places: map[grains.ID]grains.Place{}, counts: map[string]int{}, job: raysys.JobID{Hi: 1, Lo: 2}}
	net.store = &fakeStore{net: net, records: map[storeKey]grains.Record{}}
	t.Cleanup(net.close)
	return net
}

func (net *fakeNet) close() {
	net.mu.Lock()
	net.slow, net.fault = nil, nil
	nodes := slices.Clone(net.nodes)
	net.mu.Unlock()
	net.store.heal()
	for _, n := range nodes {
		n.close()
	}
	net.calls.Wait()
}

// fakeNode is one node. It implements raysys.Runtime and grains.Cluster, and is a grains.States under its own lease.
type fakeNode struct {
	net         *fakeNet
	name        raysys.NodeID
	incarnation uint64
	wheel       *wheel.Wheel
	pool        *goroutines.Pool
	engine      *grains.Engine
	job         *raysys.Job
	top         *raysys.Turn
	ending      chan struct{}
	once        sync.Once
	roots       uint64

	// guarded by net.mu
	dead     bool  // the registry gives its grains away
	draining bool  // no grain is placed here
	lease    error // of Suspended and Lease
	driver   bool
	peers    map[string]*fakePeer
	unseen   []string
}

func (net *fakeNet) add(name string) *fakeNode { return net.addAs(name, false) }

func (net *fakeNet) addAs(name string, driver bool) *fakeNode {
	n := &fakeNode{net: net, name: raysys.NodeID(name), incarnation: 1, driver: driver, ending: make(chan struct{}), peers: map[string]*fakePeer{}}
	net.mu.Lock()
	for _, old := range net.nodes {
		if old.name == n.name {
			n.incarnation = max(n.incarnation, old.incarnation+1)
		}
	}
	net.mu.Unlock()
	n.wheel = wheel.New()
	n.pool = goroutines.New(8)
	n.job = &raysys.Job{
		ID: net.job, Namespace: "test", Node: n.name, Runtime: n, Table: net.table, Closed: n.ending,
		Unseen: func(work string, err error) {
			net.mu.Lock()
			n.unseen = append(n.unseen, work+": "+err.Error())
			net.mu.Unlock()
		},
	}
	id := raysys.TaskID(net.job).Child(n.incarnation << 32).Child(uint64(len(net.nodes)))
	n.top = raysys.NewRoot(n.job, context.Background(), nil, id)
	n.job.Top = n.top
	n.engine = grains.NewEngine(grains.Config{
		Actors: actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })),
		Pool:   n.pool, Table: net.table, CPUs: 2, Now: n.wheel.Now, Rough: n.wheel.Now, Unseen: n.job.Unseen,
		Hooks:   raysys.NewRoot(n.job, context.Background(), nil, id.Child(1<<62)),
		Cluster: n, States: fakeStates{n}, Hosts: !driver,
	})
	net.mu.Lock()
	net.nodes = append(net.nodes, n)
	net.mu.Unlock()
	return n
}

// context returns a driver's context on the node.
func (n *fakeNode) context() context.Context { return n.under(context.Background()) }

func (n *fakeNode) under(ctx context.Context) context.Context {
	n.net.mu.Lock()
	n.roots++
	i := n.roots
	n.net.mu.Unlock()
	return raysys.NewContext(raysys.NewRoot(n.job, ctx, n.top, n.top.ID().Child(i)))
}

// kill is the end of the process as others see it: links reset, grains given away. The engine goes on for itself.
func (n *fakeNode) kill() {
	n.net.mu.Lock()
	n.dead = true
	n.lease = fmt.Errorf("%w: fenced", errSuspended)
	n.net.mu.Unlock()
	n.cut(errors.New("reset by test"))
}

// suspend lets the lease run out, or gives it back.
func (n *fakeNode) suspend(out bool) {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	if n.lease = nil; out {
		n.lease = fmt.Errorf("%w: by test", errSuspended)
	}
}

// cut resets all links of the node.
func (n *fakeNode) cut(cause error) {
	n.net.mu.Lock()
	links := slices.Clone(n.net.links)
	n.net.mu.Unlock()
	for _, l := range links {
		if l.ends[0].local == n || l.ends[1].local == n {
			l.cut(cause)
		}
	}
}

func (n *fakeNode) drain(ctx context.Context) error {
	n.net.mu.Lock()
	n.draining = true
	n.net.mu.Unlock()
	return n.engine.Drain(ctx)
}

func (n *fakeNode) close() {
	n.once.Do(func() {
		n.net.mu.Lock()
		n.dead = true
		n.net.mu.Unlock()
		close(n.ending)
		n.top.Cancel(raysys.ErrClosed)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := n.engine.Close(ctx); err != nil {
			n.net.t.Error(n.name, err)
		}
		n.cut(raysys.ErrClosed)
		n.wheel.Stop()
		n.pool.Close()
	})
}

// errSuspended stands for the root's sentinel, which this package only passes on.
var errSuspended = errors.New("node suspended")

var _ = raysys.RegisterError("grains_test.suspended", errSuspended)

// raysys.Runtime.

func (n *fakeNode) Now() int64                      { return n.wheel.Now() }
func (n *fakeNode) SetAlarm(a *raysys.Alarm)        { n.wheel.Set(a) }
func (n *fakeNode) ClearAlarm(a *raysys.Alarm) bool { return n.wheel.Clear(a) }
func (n *fakeNode) Grains() *grains.Engine          { return n.engine }
func (n *fakeNode) Block(t *raysys.Turn)            { n.engine.Block(t) }
func (n *fakeNode) Unblock(t *raysys.Turn)          { n.engine.Unblock(t) }

// grains.Cluster.

func (n *fakeNode) Self() (raysys.NodeID, uint64) { return n.name, n.incarnation }

func (n *fakeNode) Suspended() error {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return n.lease
}

// answer calls f now, or when the test lets it.
func (net *fakeNet) answer(op string, f func()) {
	net.mu.Lock()
	slow := net.slow
	net.mu.Unlock()
	var gate <-chan struct{}
	if slow != nil {
		gate = slow(op)
	}
	if gate == nil {
		f()
		return
	}
	net.calls.Add(1)
	go func() {
		defer net.calls.Done()
		<-gate
		f()
	}()
}

func (net *fakeNet) begin(op string, n *fakeNode, id grains.ID) error {
	net.mu.Lock()
	net.counts[op]++
	fault, lease := net.fault, n.lease
	net.mu.Unlock()
	if lease != nil {
		return lease
	}
	if fault != nil {
		return fault(op, n, id)
	}
	return nil
}

func (net *fakeNet) count(op string) int {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.counts[op]
}

func (net *fakeNet) nodeOf(p grains.Place) *fakeNode {
	for _, n := range net.nodes {
		if n.name == p.Node && n.incarnation == p.Incarnation {
			return n
		}
	}
	return nil
}

func (n *fakeNode) Locate(id grains.ID, want grains.Wanted, avoid grains.Place, done func(grains.Place, error)) {
	net := n.net
	net.answer("locate", func() {
		if err := net.begin("locate", n, id); err != nil && !want.Stateless {
			done(grains.Place{}, err)
			return
		}
		done(net.place(n, id, want))
	})
}

func (net *fakeNet) place(asks *fakeNode, id grains.ID, want grains.Wanted) (grains.Place, error) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.wants = append(net.wants, want)
	if p, ok := net.places[id]; ok && !want.Stateless {
		if at := net.nodeOf(p); at != nil && !at.dead {
			return p, nil
		}
	}
	var alive []*fakeNode
	for _, n := range net.nodes {
		if !n.dead && !n.draining && !n.driver {
			alive = append(alive, n)
		}
	}
	if len(alive) == 0 {
		return grains.Place{}, fmt.Errorf("%w: no node is left", raysys.ErrNoCapacity)
	}
	var at *fakeNode
	if net.choose != nil {
		at = net.choose(id, asks, alive)
	}
	if at == nil {
		at = alive[net.turn%len(alive)]
		net.turn++
	}
	p := grains.Place{Node: at.name, Incarnation: at.incarnation}
	if !want.Stateless {
		net.seq++
		p.Token = grains.Token{Epoch: 1, Seq: net.seq}
		net.places[id] = p
	}
	return p, nil
}

func (n *fakeNode) Confirm(id grains.ID, token grains.Token, done func(grains.Place, error)) {
	net := n.net
	net.answer("confirm", func() {
		if err := net.begin("confirm", n, id); err != nil {
			done(grains.Place{}, err)
			return
		}
		done(net.placeOf(id), nil)
	})
}

func (net *fakeNet) placeOf(id grains.ID) grains.Place {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.places[id]
}

func (n *fakeNode) Release(id grains.ID, token grains.Token, done func(error)) {
	net := n.net
	net.answer("release", func() {
		if err := net.begin("release", n, id); err != nil {
			done(err)
			return
		}
		net.mu.Lock()
		if net.places[id].Token == token {
			delete(net.places, id)
		}
		net.mu.Unlock()
		done(nil)
	})
}

func (n *fakeNode) Peer(node raysys.NodeID, incarnation uint64) wire.Peer {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	if p := n.peers[peerKey(node, incarnation)]; p != nil {
		return p
	}
	return nil
}

func peerKey(node raysys.NodeID, incarnation uint64) string {
	return fmt.Sprint(node, "/", incarnation)
}

func (n *fakeNode) Connect(node raysys.NodeID, incarnation uint64, done func(wire.Peer, error)) {
	net := n.net
	net.answer("connect", func() {
		if err := net.begin("connect", n, grains.ID{}); err != nil {
			done(nil, err)
			return
		}
		if p := n.Peer(node, incarnation); p != nil {
			done(p, nil)
			return
		}
		net.mu.Lock()
		to := net.nodeOf(grains.Place{Node: node, Incarnation: incarnation})
		if to == nil || to.dead || n.dead {
			net.mu.Unlock()
			done(nil, fmt.Errorf("dial %s: %w", node, raysys.ErrNotDelivered))
			return
		}
		p := net.linkLocked(n, to)
		net.mu.Unlock()
		p.link.start()
		done(p, nil)
	})
}

// fakeLink joins two nodes.
type fakeLink struct {
	net    *fakeNet
	ends   [2]*fakePeer
	begun  sync.Once
	ready  chan struct{} // closed when both engines know their peer
	mu     sync.Mutex    // guards closed and, held while a frame is handed over, keeps cut from overtaking it
	closed bool
	done   sync.WaitGroup
}

// fakePeer is one end: what its local node knows of the remote one.
type fakePeer struct {
	link          *fakeLink
	local, remote *fakeNode
	twin          *fakePeer
	scopes        wire.Scopes
	turns         wire.Turns

	mu     sync.Mutex // guards the rest
	cond   *sync.Cond
	queues [4][]fakeFrame // by class; bulk is the last
	closed bool
	full   bool // Send answers ErrOverloaded
	refs   []*raysys.Core
}

type fakeFrame struct {
	kind wire.Kind
	b    []byte
}

func (net *fakeNet) linkLocked(a, b *fakeNode) *fakePeer {
	l := &fakeLink{net: net, ready: make(chan struct{})}
	for i, n := range []*fakeNode{a, b} {
		p := &fakePeer{link: l, local: n}
		p.cond = sync.NewCond(&p.mu)
		p.scopes.Send = p.Send
		p.turns.Job = func(id raysys.JobID, namespace string) *raysys.Job {
			return &raysys.Job{
				ID: id, Namespace: namespace, Node: n.name, Runtime: n, Table: net.table, Top: n.top, Closed: n.ending, Unseen: n.job.Unseen,
			}
		}
		l.ends[i] = p
	}
	l.ends[0].twin, l.ends[1].twin = l.ends[1], l.ends[0]
	l.ends[0].remote, l.ends[1].remote = b, a
	a.peers[peerKey(b.name, b.incarnation)] = l.ends[0]
	if a != b {
		b.peers[peerKey(a.name, a.incarnation)] = l.ends[1]
	}
	net.links = append(net.links, l)
	return l.ends[0]
}

func (l *fakeLink) start() {
	l.begun.Do(func() {
		for _, p := range l.ends {
			p.local.engine.PeerUp(p)
		}
		for _, p := range l.ends {
			for _, bulk := range []bool{false, true} {
				l.done.Add(1)
				go p.run(bulk)
			}
		}
		close(l.ready)
	})
	<-l.ready
}

// cut resets the link: what is on the way is lost, and both ends are told.
func (l *fakeLink) cut(cause error) {
	l.start()
	for _, p := range l.ends {
		p.mu.Lock()
		p.closed = true
		p.cond.Broadcast()
		p.mu.Unlock()
	}
	l.done.Wait()
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return
	}
	for _, p := range l.ends {
		l.net.mu.Lock()
		key := peerKey(p.remote.name, p.remote.incarnation)
		if p.local.peers[key] == p {
			delete(p.local.peers, key)
		}
		l.net.mu.Unlock()
		p.scopes.Close(raysys.ErrNotDelivered)
		p.local.engine.PeerDown(p, cause)
		p.turns.Close(fmt.Errorf("%w: %w", raysys.ErrCancelled, cause))
	}
}

// run delivers what this end's local node receives: control before replies before requests, bulk on its own.
func (p *fakePeer) run(bulk bool) {
	defer p.link.done.Done()
	from := p.remote
	for {
		p.mu.Lock()
		var f fakeFrame
		for found := false; !found; {
			if p.closed {
				p.mu.Unlock()
				return
			}
			for c := range p.queues {
				if q := p.queues[c]; bulk == (c == 3) && len(q) > 0 {
					f, p.queues[c], found = q[0], q[1:], true
					break
				}
			}
			if !found {
				p.cond.Wait()
			}
		}
		p.mu.Unlock()
		p.link.net.mu.Lock()
		watch := p.link.net.onWire
		p.link.net.mu.Unlock()
		if watch != nil {
			watch(p.link, from, f.kind, f.b)
		}
		if err := p.deliver(f); err != nil {
			p.link.net.t.Errorf("frame %d from %s to %s: %v", f.kind, from.name, p.local.name, err)
		}
		for i := range f.b {
			f.b[i] = 0xff // the link uses its memory again
		}
	}
}

func (p *fakePeer) deliver(f fakeFrame) error {
	switch f.kind {
	case wire.KindOpen:
		return p.turns.Opened(f.b)
	case wire.KindShut:
		return p.turns.Shut(f.b)
	case wire.KindCancelTurn:
		return p.turns.Cancelled(f.b)
	}
	return p.local.engine.Receive(p, f.kind, f.b)
}

// wire.Peer.

func (p *fakePeer) Node() raysys.NodeID { return p.remote.name }
func (p *fakePeer) Incarnation() uint64 { return p.remote.incarnation }
func (p *fakePeer) Flush()              {}

func (p *fakePeer) Runs(e *raysys.Entry) (uint32, bool) {
	i := slices.Index(p.link.net.table.Entries(), e)
	return uint32(i), i >= 0
}

func (p *fakePeer) Entry(number uint32) *raysys.Entry {
	if es := p.link.net.table.Entries(); int(number) < len(es) {
		return es[number]
	}
	return nil
}

func (p *fakePeer) Send(class wire.Class, kind wire.Kind, payload []byte) error {
	return p.push(int(class), kind, append([]byte(nil), payload...))
}

func (p *fakePeer) SendLarge(kind wire.Kind, payload []byte) error {
	p.link.net.mu.Lock()
	p.link.net.large++
	p.link.net.mu.Unlock()
	return p.push(3, kind, payload)
}

func (p *fakePeer) push(class int, kind wire.Kind, b []byte) error {
	q := p.twin
	p.mu.Lock()
	full := p.full && class >= int(wire.Replies) && kind >= wire.KindCall
	p.mu.Unlock()
	if full {
		return raysys.ErrOverloaded
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return raysys.ErrNotDelivered
	}
	q.queues[class] = append(q.queues[class], fakeFrame{kind, b})
	q.cond.Broadcast()
	return nil
}

func (p *fakePeer) Open(t *raysys.Turn) (uint32, error) { return p.scopes.Open(t) }
func (p *fakePeer) Shut(scope uint32)                   { p.scopes.Shut(scope) }
func (p *fakePeer) Turn(scope uint32) *raysys.Turn      { return p.turns.Turn(scope) }

// AppendRef lets a future travel by its place in a list, since both ends are in one process.
func (p *fakePeer) AppendRef(dst []byte, c *raysys.Core) ([]byte, error) {
	q := p.twin
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refs = append(q.refs, c)
	return binary.AppendUvarint(dst, uint64(len(q.refs)-1)), nil
}

func (p *fakePeer) ReadRef(r *wire.Reader) (*raysys.Core, error) {
	i := r.Uvarint()
	p.mu.Lock()
	defer p.mu.Unlock()
	if i >= uint64(len(p.refs)) {
		return nil, wire.ErrCorrupt
	}
	return p.refs[i], nil
}

// linkBetween returns the link of two nodes, which must be connected.
func (net *fakeNet) linkBetween(a, b *fakeNode) *fakeLink {
	net.mu.Lock()
	defer net.mu.Unlock()
	p := a.peers[peerKey(b.name, b.incarnation)]
	if p == nil {
		net.t.Fatalf("%s and %s are not connected", a.name, b.name)
	}
	return p.link
}
