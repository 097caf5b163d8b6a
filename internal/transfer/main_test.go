package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// net is the nodes of a test and where they are.
type net struct {
	t       testing.TB
	memory  *linktest.Network // nil over TCP
	mu      sync.Mutex        // guards addrs
	addrs   map[raysys.NodeID]string
	adapt   func(*transfer.Config)
	chaos   func(to raysys.NodeID, class wire.Class, kind wire.Kind) link.Action
	owned   []owned // what put was told, by the test's own goroutine
	objects objectstore.Config
}

// owned is an object that a node owns.
type owned struct {
	version objectstore.Version
	bytes   []byte
}

func newNet(t testing.TB, seed uint64) *net {
	return &net{t: t, memory: linktest.NewNetwork(seed), addrs: map[raysys.NodeID]string{}, objects: objectstore.Config{Budget: 1 << 30, Warm: -1}}
}

// node is one node: its link, its store and its engine.
type node struct {
	*transfer.Engine
	net   *net
	name  raysys.NodeID
	link  *link.Link
	store *objectstore.Store
	peers sync.Map // of *link.Peer: *peer
	down  func()

	// What a test wants done with what the node sends; nil for nothing.
	onBody  func(to raysys.NodeID, body *transfer.Body)
	onFrame func(to raysys.NodeID, kind wire.Kind, payload []byte) []byte
}

// peer joins link and engine, as package system does.
type peer struct {
	*link.Peer
	of *node
}

func (p *peer) Incarnation() uint64 { return p.Identity().Incarnation }

func (p *peer) Send(class wire.Class, kind wire.Kind, payload []byte) error {
	if f := p.of.onFrame; f != nil {
		payload = f(p.Node(), kind, payload)
	}
	return p.Peer.Send(class, kind, payload)
}

func (p *peer) SendLarge(kind wire.Kind, payload []byte) error {
	return p.SendBulk(kind, payload)
}

func (p *peer) SendBody(kind wire.Kind, head []byte, body transfer.Body) error {
	if f := p.of.onBody; f != nil {
		f(p.Node(), &body)
	}
	return p.Peer.SendBody(kind, head, link.Body(body))
}

func (p *peer) Abandon(l transfer.Landing) { p.Peer.Abandon(l) }

// key names a node's first life.
func key(name raysys.NodeID) core.NodeKey { return core.NodeKey{Node: name, Incarnation: 1} }

// node starts a node, which is stopped with the test.
func (n *net) node(name raysys.NodeID, change ...func(*transfer.Config)) *node {
	return n.nodeWith(name, nil, change...)
}

func (n *net) nodeWith(name raysys.NodeID, prepare func(*node), change ...func(*transfer.Config)) *node {
	n.t.Helper()
	x := &node{net: n, name: name}
	if prepare != nil {
		prepare(x)
	}
	var err error
	if x.store, err = objectstore.Open(n.objects); err != nil {
		n.t.Fatal(err)
	}
	cfg := transfer.Config{Self: func() core.NodeKey { return key(name) }, Store: x.store, Link: x}
	if n.adapt != nil {
		n.adapt(&cfg)
	}
	for _, c := range change {
		c(&cfg)
	}
	if x.Engine, err = transfer.New(cfg); err != nil {
		n.t.Fatal(err)
	}
	transport := link.TCP(link.TCPConfig{})
	if n.memory != nil {
		transport = n.memory.Transport(name)
	}
	lc := link.Config{
		Self:      func() link.Identity { return link.Identity{Cluster: "test", Node: name, Incarnation: 1} },
		Transport: transport, Listen: "127.0.0.1:0", Chaos: n.chaos,
		Handlers: map[wire.Kind]link.Handler{},
		Sinks: map[wire.Kind]link.Sink{wire.KindChunk: func(p *link.Peer, head []byte, size int) link.Landing {
			if l := x.Land(core.NodeKey{Node: p.Node(), Incarnation: p.Identity().Incarnation}, head, size); l != nil {
				return l
			}
			return nil
		}},
		Up: func(p *link.Peer) { x.peers.Store(p, &peer{p, x}) },
		Down: func(p *link.Peer, cause error) {
			x.peers.Delete(p)
			x.PeerDown(core.NodeKey{Node: p.Node(), Incarnation: p.Identity().Incarnation}, cause)
		},
		Panicked: func(_ *link.Peer, k wire.Kind, v any, stack []byte) { n.t.Errorf("kind %d: %v\n%s", k, v, stack) },
	}
	for _, k := range transfer.Kinds() {
		lc.Handlers[k] = func(p *link.Peer, _ wire.Class, b []byte) {
			v, ok := x.peers.Load(p)
			if !ok {
				return
			}
			if err := x.Handle(v.(*peer), k, b); err != nil {
				p.Close(err)
			}
		}
	}
	if x.link, err = link.New(lc); err != nil {
		n.t.Fatal(err)
	}
	if err := x.link.Start(context.Background()); err != nil {
		n.t.Fatal(err)
	}
	n.mu.Lock()
	n.addrs[name] = x.link.Addr()
	n.mu.Unlock()
	x.down = sync.OnceFunc(func() {
		x.Engine.Close()
		x.link.Close(context.Background())
		if err := x.store.Close(); err != nil {
			n.t.Error(err)
		}
	})
	n.t.Cleanup(x.down)
	return x
}

// kill is the end of a node's process.
func (x *node) kill() {
	x.net.mu.Lock()
	delete(x.net.addrs, x.name)
	x.net.mu.Unlock()
	x.net.memory.Kill(x.name)
	x.down()
}

// Connect implements transfer.Link.
func (x *node) Connect(ctx context.Context, to core.NodeKey) (transfer.Peer, error) {
	x.net.mu.Lock()
	addr := x.net.addrs[to.Node]
	x.net.mu.Unlock()
	if addr == "" {
		return nil, fmt.Errorf("%w: %s", raysys.ErrNodeDead, to)
	}
	p, err := x.link.Connect(ctx, to.Node, addr)
	if err != nil {
		return nil, err
	}
	return &peer{p, x}, nil
}

// id makes an object's name.
func id(n uint64) raysys.TaskID { return raysys.TaskID{Hi: 1, Lo: n} }

// noise is bytes that repeat under one seed, and under no other.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), 1})
	r.Read(b)
	return b
}

// value is a live value in a store.
type value struct{ pieces [][]byte }

func (v *value) Size() (n int64) {
	for _, p := range v.pieces {
		n += int64(len(p))
	}
	return n
}

func (v *value) Pieces() ([][]byte, error) { return v.pieces, nil }

func (v *value) Evict() bool { return false }

// put gives a node an object. The first node that is given some bytes under a name owns them; the next ones have copies
// of that version, which stay.
func (x *node) put(n uint64, attempt uint32, b []byte) objectstore.Version {
	x.net.t.Helper()
	ctx := context.Background()
	for _, o := range x.net.owned {
		if o.version.ID != id(n) || o.version.Attempt != attempt || !bytes.Equal(o.bytes, b) {
			continue
		}
		in, err := x.store.Receive(ctx, o.version, objectstore.Heap)
		if err != nil {
			x.net.t.Fatal(err)
		}
		in.Object().SetPrimary(true)
		for i := range objectstore.Chunks(o.version.Size) {
			at, n := o.version.Section(i)
			chunk := b[at : at+int64(n)]
			copy(in.Buffer(i), chunk)
			if err := in.Filled(i, objectstore.Checksum(chunk)); err != nil {
				x.net.t.Fatal(err)
			}
		}
		return o.version
	}
	v, err := x.own(n, attempt, b).Version(ctx)
	if err != nil {
		x.net.t.Fatal(err)
	}
	x.net.owned = append(x.net.owned, owned{v, b})
	return v
}

// own makes a node the owner of a live value, whose version no other node has.
func (x *node) own(n uint64, attempt uint32, b []byte) *objectstore.Object {
	x.net.t.Helper()
	half := len(b) / 3
	o, err := x.store.Add(context.Background(), id(n), attempt, &value{[][]byte{b[:half], b[half:]}})
	if err != nil {
		x.net.t.Fatal(err)
	}
	return o
}

// get fetches an object and returns its bytes.
func (x *node) get(ctx context.Context, n uint64, from ...core.NodeKey) ([]byte, error) {
	return x.getAs(ctx, objectstore.Version{ID: id(n)}, objectstore.Heap, transfer.From(from...))
}

func (x *node) getAs(ctx context.Context, want objectstore.Version, form objectstore.Form, from transfer.Sources) ([]byte, error) {
	o, err := x.Fetch(ctx, want, from, form)
	if err != nil {
		return nil, err
	}
	defer o.Unpin()
	return o.Bytes(ctx)
}
