package mesh

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
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
	voting   voting
	failed   map[core.NodeKey]error // why nodes without a connection could not be reached when they were dialled last
}

// New makes a Mesh; it does no I/O.
func New(cfg Config) *Mesh {
	return &Mesh{
		cfg: cfg, entries: cfg.Table.Entries(), joined: make(chan struct{}),
		peers: map[raysys.NodeID]*Peer{}, admitted: map[core.NodeKey]member.Info{}, heard: map[raysys.NodeID]time.Time{},
		waiting: map[core.NodeKey]*waiting{}, failed: map[core.NodeKey]error{},
		voting: voting{withheld: map[core.NodeKey]bool{}, brisk: map[core.NodeKey]bool{}},
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

// Prober answers the membership's questions about the connections.
func (m *Mesh) Prober() Prober { return Prober{m} }

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

// admit decides about a node whose handshake was right: it must be a member, by the store's word where the own view
// does not know it yet, and with the key that its record names (rule C18).
func (m *Mesh) admit(ctx context.Context, who link.Identity, cert *x509.Certificate) error {
	select {
	case <-m.joined:
	case <-ctx.Done():
		return errors.New("this node has not joined yet")
	}
	if who.Node == m.Self().Node {
		return fmt.Errorf("node %s is this node's own name", who.Node)
	}
	n, err := m.member.Confirm(ctx, who.Node, who.Incarnation)
	if err != nil {
		return err
	}
	if cert != nil {
		if n, err = m.proves(ctx, n, cert); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.admitted[core.NodeKey{Node: who.Node, Incarnation: who.Incarnation}] = n.Info
	m.mu.Unlock()
	return nil
}

// unproven decides about a member that offered no proof of the cluster's secret on a plain connection. Its program may be
// from before the secret, and the record tells: who cannot write there cannot pass for such a program. The version would
// not tell, since builds of a working tree have none.
func (m *Mesh) unproven(ctx context.Context, who link.Identity) error {
	n, err := m.member.Confirm(ctx, who.Node, who.Incarnation)
	if err == nil && n.Proves {
		err = fmt.Errorf("the record of incarnation %d in the store says that its program does", who.Incarnation)
	}
	return err
}

// proves returns the member that a certificate proves: its role allows it, and its key is that of the record. The store
// is asked before another key is refused: a node writes a new key to its record first, and the view may be older.
func (m *Mesh) proves(ctx context.Context, n member.Node, cert *x509.Certificate) (member.Node, error) {
	print := link.KeyFingerprint(cert)
	if n.KeyPrint != print {
		var err error
		if n, err = m.member.Fetch(ctx, n.ID, n.Incarnation); err != nil {
			return n, err
		}
	}
	if n.KeyPrint != print {
		return n, fmt.Errorf("the record of node %s has another key than the certificate it shows", n.ID)
	}
	return n, m.cfg.Allow(cert, n.Info)
}

func (m *Mesh) rejected(remote string, who link.Identity, err error) {
	if m.warnOfCertificate(zap.String("remote", remote), err) {
		return
	}
	m.cfg.Log.Info("connection rejected", zap.String("remote", remote), zap.String("claims", string(who.Node)), zap.Error(err))
}

func (m *Mesh) panicked(p *link.Peer, kind wire.Kind, value any, stack []byte) {
	m.cfg.Log.Error("handler panicked", zap.String("peer", string(p.Identity().Node)), zap.Uint8("kind", uint8(kind)), zap.Any("panic", value), zap.ByteString("stack", stack))
}

// EndDistrusted ends the sessions with nodes whose certificate no CA of t verifies any more. It returns when it has
// looked at all of them. A node may have another certificate since its session began: it is asked before, at the
// address of its record. A node that cannot be dialled, as some drivers, loses its session and connects anew.
func (m *Mesh) EndDistrusted(t *link.TLS) {
	var asking sync.WaitGroup
	free := make(chan struct{}, askedAtOnce)
	for _, p := range m.Connected() {
		if !t.Distrusts(p.link) {
			continue
		}
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			chain, err := m.askCertificates(t, p)
			switch {
			case err == nil:
				p.link.Proved(chain)
			case m.cfg.Runner.Err() == nil:
				m.cfg.Log.Warn("session ended: the CA file no longer verifies the peer's certificate", zap.Stringer("peer", p.key), zap.Error(err))
				p.link.Close(fmt.Errorf("the CA file of node %s does not verify the certificate of node %s: give it a certificate of a CA in that file", m.cfg.Node, p.key.Node))
			}
		})
	}
	asking.Wait()
}

// askCertificates returns the certificates that a peer's node shows now, if they prove that it is that node.
func (m *Mesh) askCertificates(t *link.TLS, p *Peer) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(m.cfg.Runner.Context(), DialTimeout)
	defer cancel()
	n, err := m.member.Confirm(ctx, p.key.Node, p.key.Incarnation)
	if err != nil {
		return nil, err
	}
	chain, err := t.Ask(ctx, n.Address, p.link.Identity().Cluster, n.ID)
	if err == nil {
		_, err = m.proves(ctx, n, chain[0])
	}
	return chain, err
}

// warnOfCertificate writes a line if a handshake failed by a certificate that has expired, or because the other side
// refuses this node's, and says whether it did. It writes one a minute: a node tries again and again.
func (m *Mesh) warnOfCertificate(peer zap.Field, err error) bool {
	text, fields := "", []zap.Field{peer}
	var invalid x509.CertificateInvalidError
	var remote *net.OpError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		text = "a peer's certificate has expired, or is not valid yet: replace its files, and see its clock"
		fields = append(fields, zap.Time("expires", invalid.Cert.NotAfter))
		if name, err := link.NameOf(invalid.Cert); err == nil { // else it is the CA
			fields = append(fields, zap.String("node", string(name.Node)))
		}
	case errors.As(err, &remote) && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate"): // a TLS alert
		text = "a peer refuses this node's certificate: see whether it has expired, and whether the peer's CA file verifies it"
	default:
		return false
	}
	now, last := m.cfg.Runner.Now(), m.certWarned.Load()
	if last != 0 && now-last < int64(time.Minute) || !m.certWarned.CompareAndSwap(last, now) {
		return false
	}
	m.cfg.Log.Warn(text, append(fields, zap.Error(err))...)
	return true
}

// handlers are what the link calls with frames.
func (m *Mesh) handlers() map[wire.Kind]link.Handler {
	out := map[wire.Kind]link.Handler{}
	add := func(k wire.Kind, f func(p *Peer, class wire.Class, frame []byte) error) {
		out[k] = func(l *link.Peer, class wire.Class, frame []byte) {
			p := m.of(l)
			if p == nil {
				return
			}
			if err := f(p, class, frame); err != nil {
				m.cfg.Log.Warn("closing a connection: protocol violation", zap.Stringer("peer", p.key), zap.Uint8("kind", uint8(k)), zap.Error(err))
				l.Close(fmt.Errorf("frame of kind %d: %w", k, err))
			}
		}
	}
	add(wire.KindOpen, func(p *Peer, _ wire.Class, b []byte) error { return p.turns.Opened(b) })
	add(wire.KindShut, func(p *Peer, _ wire.Class, b []byte) error { return p.turns.Shut(b) })
	add(wire.KindCancelTurn, func(p *Peer, _ wire.Class, b []byte) error { return p.turns.Cancelled(b) })
	add(wire.KindAnswer, func(p *Peer, _ wire.Class, b []byte) error { return p.Questions.Answered(b) })
	for k, f := range m.cfg.Frames {
		add(k, func(p *Peer, _ wire.Class, b []byte) error { return f(p, b) })
	}
	question := func(k wire.Kind, f func(p *Peer, r *wire.Reader, to Reply) error) {
		add(k, func(p *Peer, class wire.Class, b []byte) error {
			return p.Questions.Serve(class, b, func(r *wire.Reader, to Reply) error { return f(p, r, to) })
		})
	}
	question(wire.KindBallot, m.serveBallot)
	for k, f := range m.cfg.Questions {
		question(k, f)
	}
	return out
}

// sinks say where the bodies of frames go.
func (m *Mesh) sinks() map[wire.Kind]link.Sink {
	out := map[wire.Kind]link.Sink{}
	for k, f := range m.cfg.Sinks {
		out[k] = func(l *link.Peer, head []byte, size int) link.Landing {
			p := m.of(l)
			if p == nil {
				return nil
			}
			return f(p, head, size)
		}
	}
	return out
}

// of returns the peer of a connection, nil before it is up and after it is down.
func (m *Mesh) of(l *link.Peer) *Peer {
	v, ok := m.byLink.Load(l)
	if !ok {
		return nil
	}
	return v.(*Peer)
}

// framesLost is called by the link. A request whose frame was lost, or its answer, would wait as long as the connection
// lives, and so would a reference that was given back or a turn that has ended. The end of a connection settles all of
// them: each is asked again on the next one where that is safe, and fails with a typed error where it is not (see Peer.down).
func (m *Mesh) framesLost(l *link.Peer, class wire.Class, n uint64) {
	p := m.of(l)
	if p == nil || p.holed.Swap(true) {
		return
	}
	m.cfg.Log.Warn("frames were lost on a connection, which is made anew", zap.Stringer("peer", p.key),
		zap.Stringer("class", class), zap.Uint64("frames", n), zap.Duration("in", m.cfg.Times.Loss))
	m.cfg.Runner.After(m.cfg.Times.Loss, func() { l.Close(errHoles) })
}

// askedAtOnce bounds the connections that EndDistrusted opens at the same time.
const askedAtOnce = 16

// errHoles is why a connection was ended that may leave a request without its answer.
var errHoles = errors.New("frames were lost on the connection")

// KeyOf is the key of a member.
func KeyOf(m member.Node) core.NodeKey { return core.NodeKey{Node: m.ID, Incarnation: m.Incarnation} }

// Times are the times of the links that follow from the lease. A broken pair has to be found, and a way around it, before the
// membership acts upon the silence: it makes the pair known after one and a half leases and ends it after two.
//
//	0 ────── silent ────── + dial ────────────── TTL ────────── 1.5 TTL
//	     is it the pair?   direct failed:        a vote         the pair is made known
//	     (ask the others)  relay it
type Times struct {
	Ping      time.Duration // between two pings of a connection
	Silent    time.Duration // the silence after which a pair may be broken: four pings
	Dial      time.Duration // for one connection; a second attempt, or a relay, still fits
	Handshake time.Duration // from the connection to the session: the identity may be looked up in the store meanwhile
	// Loss is how long a connection lives on that has lost frames. Requests with a deadline of their own may end by it meanwhile, and
	// a way that loses frames all the time does not make a connection for each of them.
	Loss time.Duration
}

// TimesOf are the same for every lease from 10 s on.
func TimesOf(ttl time.Duration) Times {
	silent := min(ttl/3, 2*time.Second)
	return Times{Ping: silent / 4, Silent: silent, Dial: min(ttl/4, 2500*time.Millisecond), Handshake: min(ttl/2, 5*time.Second), Loss: min(ttl/2, 5*time.Second)}
}
