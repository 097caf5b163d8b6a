package grainengine_test

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

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
	paused bool // nothing is delivered
	behind bool // nothing but bulk is
	slow   bool // all but bulk is
	full   bool // Send answers ErrOverloaded, SendLarge does not
	noBulk int  // how many SendLarge do
	refs   []*core.Future
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
		p.turns.Job = func(k wire.JobKey) *core.Job {
			return &core.Job{
				ID: k.ID, Run: k.Run, Namespace: k.Namespace, Node: n.name, Runtime: n, Table: net.table, Top: n.top, Closed: n.ending, Unseen: n.job.Unseen,
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
				if q := p.queues[c]; !p.paused && bulk == (c == 3) && (bulk || !p.behind) && !(bulk && p.slow) && len(q) > 0 {
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

// refuseLarge has the bulk connection from a to b refuse the next frames.
func refuseLarge(a, b *fakeNode, frames int) {
	p := a.Peer(core.NodeKey{Node: b.name, Incarnation: b.incarnation}).(*fakePeer)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noBulk = frames
}

// pause stops the delivery of what this end's node receives, or lets it go on.
func (p *fakePeer) pause(stop bool) {
	p.mu.Lock()
	p.paused = stop
	p.cond.Broadcast()
	p.mu.Unlock()
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
	if list := f.kind.List(); list != 0 && len(f.b) <= wire.ItemLimit && len(f.b)%2 == 0 { // as the nodes send it
		return p.local.engine.Receive(p, list, wire.AppendBytes(nil, f.b))
	}
	return p.local.engine.Receive(p, f.kind, f.b)
}

// wire.Peer.

func (p *fakePeer) Node() raysys.NodeID { return p.remote.name }
func (p *fakePeer) Incarnation() uint64 { return p.remote.incarnation }
func (p *fakePeer) Flush()              {}
func (p *fakePeer) Cork()               {}
func (p *fakePeer) Uncork(bool)         {}

func (p *fakePeer) Runs(e *core.Entry) (uint32, bool) {
	i := slices.Index(p.link.net.table.Entries(), e)
	return uint32(i), i >= 0
}

func (p *fakePeer) Entry(number uint32) *core.Entry {
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
	return p.push(3, kind, append([]byte(nil), payload...))
}

func (p *fakePeer) SendFrame(kind wire.Kind, payload []byte, written func([]byte)) error {
	err := p.SendLarge(kind, payload)
	if err == nil {
		written(payload)
	}
	return err
}

func (p *fakePeer) push(class int, kind wire.Kind, b []byte) error {
	q := p.twin
	p.mu.Lock()
	full := p.full && class >= int(wire.Replies) && class < 3 && kind >= wire.KindCall || p.noBulk > 0 && class == 3
	if p.noBulk > 0 && class == 3 {
		p.noBulk--
	}
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

func (p *fakePeer) Open(t *core.Turn) (uint32, error) { return p.scopes.Open(t) }
func (p *fakePeer) Shut(scope uint32)                 { p.scopes.Shut(scope) }
func (p *fakePeer) Turn(scope uint32) *core.Turn      { return p.turns.Turn(scope) }

// AppendRef lets a future travel by its place in a list, since both ends are in one process.
func (p *fakePeer) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	q := p.twin
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refs = append(q.refs, c)
	return binary.AppendUvarint(dst, uint64(len(q.refs)-1)), nil
}

// AppendObject lets a future travel by a stand-in, which copies its value when it is asked to.
func (p *fakePeer) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	if err := c.Pin(); err != nil {
		return dst, err
	}
	return p.AppendRef(dst, &core.NewUntyped(p.twin.local.job, &fakeObject{p.link, c}).Future)
}

// fakeObject is where the value of a future of another node comes from.
type fakeObject struct {
	link   *fakeLink
	future *core.Future
}

func (o *fakeObject) Name() string      { return "far " + o.future.Work().Name() }
func (o *fakeObject) ID() raysys.TaskID { return o.future.ID() }
func (o *fakeObject) Cancelled()        {}

func (o *fakeObject) Fetch(into any, done func(error)) {
	o.link.done.Go(func() { done(o.copy(into)) })
}

func (o *fakeObject) copy(into any) error {
	v, err := o.future.Outcome()
	if err == nil {
		from := reflect.ValueOf(v).Elem()
		var p *codec.Plan
		var b []byte
		if p, err = codec.PlanOf(from.Type()); err == nil {
			if b, err = p.Append(nil, from, nil); err == nil {
				err = p.Decode(b, reflect.ValueOf(into).Elem(), nil)
			}
		}
	}
	return err
}

func (p *fakePeer) ReadRef(r *wire.Reader) (*core.Future, error) {
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
