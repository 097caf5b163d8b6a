package mesh

import (
	"context"
	"crypto/x509"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// Config is what package system gives a Mesh.
type Config struct {
	// Node is the node's name, Namespace that of its program.
	Node      raysys.NodeID
	Namespace string
	Table     *core.Table // the program's functions
	Runner    *runner.Runner
	Log       *zap.Logger
	Times     Times

	// Job returns what work of another node's job belongs to here.
	Job func(wire.JobKey) *core.Job
	// Allow says whether a certificate is good for a member.
	Allow func(cert *x509.Certificate, info member.Info) error

	// Frames are the handlers of frames that have no answer, Questions those of questions, Sinks say where bodies go. They run on
	// the connection's reader. An error says that the frame cannot be, and closes the connection.
	Frames    map[wire.Kind]func(p *Peer, frame []byte) error
	Questions map[wire.Kind]func(p *Peer, r *wire.Reader, to Reply) error
	Sinks     map[wire.Kind]func(p *Peer, head []byte, size int) link.Landing

	// Opened is called with a new connection before anything else is sent on it or comes, and sets Peer.Session.
	Opened func(*Peer)
	// Up is called when the peer can be used, before any frame of it; Down after its last frame, when the questions to it have ended.
	Up   func(*Peer)
	Down func(p *Peer, cause error)
}

// Mesh is the connections of a node to the other members of its cluster.
type Mesh struct {
	cfg          Config
	entries      []*core.Entry // this node's functions, by the number that others use
	link         *link.Link
	member       *member.Member // from Joined on
	self         atomic.Pointer[core.NodeKey]
	joined       chan struct{} // closed when member and self are known
	byLink       sync.Map      // *link.Peer -> *Peer
	certWarned   atomic.Int64  // when the last line of warnOfCertificate was written, by the node's clock; 0: none was
	unregistered sync.Map      // reflect.Type -> true, of error types that the log has a line on

	mu       sync.Mutex // guards the rest
	peers    map[raysys.NodeID]*Peer
	admitted map[core.NodeKey]member.Info // what connected nodes tell of themselves
	heard    map[raysys.NodeID]time.Time  // when the last frame came, of nodes whose connection broke
	waiting  map[core.NodeKey]*waiting
	failed   map[core.NodeKey]error // why nodes without a connection could not be reached when they were dialled last
}

// New makes a Mesh; it does no I/O.
func New(cfg Config) *Mesh {
	return &Mesh{
		cfg: cfg, entries: cfg.Table.Entries(), joined: make(chan struct{}),
		peers: map[raysys.NodeID]*Peer{}, admitted: map[core.NodeKey]member.Info{}, heard: map[raysys.NodeID]time.Time{},
		waiting: map[core.NodeKey]*waiting{}, failed: map[core.NodeKey]error{},
	}
}

// Listen begins to take connections; no peer is admitted before Joined. Of cfg the caller gives Self, Transport,
// Listen, Secret and Chaos.
func (m *Mesh) Listen(cfg link.Config) (err error) {
	cfg.Handlers, cfg.Sinks, cfg.Admit, cfg.Up, cfg.Down = m.handlers(), m.sinks(), m.admit, m.up, m.down
	cfg.Unproven = m.unproven
	cfg.Suspect, cfg.Rejected, cfg.Panicked, cfg.Lost = m.suspected, m.rejected, m.panicked, m.framesLost
	t := m.cfg.Times
	cfg.PingEvery, cfg.SuspectAfter, cfg.DialTimeout, cfg.HandshakeTimeout = t.Ping, t.Silent, t.Dial, t.Handshake
	if m.link, err = link.New(cfg); err != nil {
		return err
	}
	return m.link.Start(m.cfg.Runner.Context())
}

// Addr is where it listens.
func (m *Mesh) Addr() string { return m.link.Addr() }

// Joined sets the identity of this node, from now on.
func (m *Mesh) Joined(mem *member.Member) {
	m.member = mem
	m.self.Store(&core.NodeKey{Node: m.cfg.Node, Incarnation: mem.Incarnation()})
	close(m.joined)
}

// HasJoined reports whether Joined was called.
func (m *Mesh) HasJoined() bool {
	select {
	case <-m.joined:
		return true
	default:
		return false
	}
}

// Self is this node; its incarnation is 0 before Joined.
func (m *Mesh) Self() core.NodeKey {
	if k := m.self.Load(); k != nil {
		return *k
	}
	return core.NodeKey{Node: m.cfg.Node}
}

// Entries are this node's functions, by the number that others use.
func (m *Mesh) Entries() []*core.Entry { return m.entries }

// Alive reports whether an incarnation is a member. One that may have joined just now counts: others pass on what they have
// of it before the store's watch has told this node.
func (m *Mesh) Alive(k core.NodeKey) bool {
	v := m.member.View()
	n, ok := v.Node(k.Node)
	return ok && n.Incarnation == k.Incarnation || v.Coming(k.Node, k.Incarnation)
}

// Info is what a connected node tells of itself.
func (m *Mesh) Info(k core.NodeKey) member.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admitted[k]
}

// Failed is why a node without a connection could not be reached when it was dialled last; nil when it was not, or is connected.
func (m *Mesh) Failed(k core.NodeKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed[k]
}

// End fails the callers that wait for a connection. It is called when the Runner has ended, after which there are no
// new ones.
func (m *Mesh) End(cause error) {
	m.mu.Lock()
	keys := slices.Collect(maps.Keys(m.waiting))
	m.mu.Unlock()
	for _, k := range keys {
		unreached(m, k, cause)
	}
}

// Close ends the connections in good order, and waits for all that they do; Break as the end of the process would, and
// waits for nothing. Before Listen Close does nothing.
func (m *Mesh) Close(ctx context.Context) error {
	if m.link == nil {
		return nil
	}
	return m.link.Close(ctx)
}

// Break is described with Close.
func (m *Mesh) Break() { m.link.Break() }
