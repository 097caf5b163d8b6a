package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
)

// Link is a node's end of all its sessions.
type Link struct {
	cfg      Config
	handlers [256]Handler
	base     time.Time     // what times are measured from, monotonic
	orders   atomic.Uint64 // of the sessions this node confirmed as elder
	calls    atomic.Int64  // when a request or a reply came last
	routes   relays
	running  sync.WaitGroup
	life     context.Context // ended by Close; for Admit and dials that outlive their caller
	end      context.CancelCauseFunc

	mu         sync.Mutex // guards the rest
	state      state
	listener   net.Listener
	slots      map[raysys.NodeID]*slot
	peers      map[*Peer]struct{} // whose Down has not returned
	shaking    map[net.Conn]*handshake
	hellos     int    // bytes of first messages that have not come whole
	handshakes uint64 // how many there have been
}

type state uint8

const (
	stateNew state = iota
	stateOpen
	stateClosed
)

// New makes a link. It validates cfg, does no I/O and starts nothing.
func New(cfg Config) (*Link, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new link: %w", err)
	}
	l := &Link{cfg: cfg, base: time.Now(), slots: map[raysys.NodeID]*slot{}, peers: map[*Peer]struct{}{}, shaking: map[net.Conn]*handshake{}}
	for k, h := range cfg.Handlers {
		l.handlers[k] = h
	}
	l.calls.Store(-2 * politeFor)
	l.routes.init(l)
	l.life, l.end = context.WithCancelCause(context.Background())
	return l, nil
}

// Start begins to listen and to ping.
func (l *Link) Start(ctx context.Context) error {
	id := l.cfg.Self()
	if err := id.check(); err != nil {
		return fmt.Errorf("start link: %w", err)
	}
	var ln net.Listener
	if l.cfg.Listen != "" {
		var err error
		if ln, err = l.cfg.Transport.Listen(ctx, l.cfg.Listen); err != nil {
			return fmt.Errorf("start link: %w", err)
		}
	}
	l.mu.Lock()
	if l.state != stateNew {
		l.mu.Unlock()
		if ln != nil {
			ln.Close()
		}
		return errors.New("start link: it was started before")
	}
	l.state, l.listener = stateOpen, ln
	l.mu.Unlock()
	l.run(l.keepAlive)
	if ln != nil {
		l.run(func() { l.acceptAll(ln) })
	}
	return nil
}

// run runs f on a goroutine that Close waits for, unless the link is not open.
func (l *Link) run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateOpen {
		return false
	}
	l.running.Go(f)
	return true
}

// Addr is where the link listens, in the form that Dial takes; empty when it does not.
func (l *Link) Addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return ""
	}
	return l.listener.Addr().String()
}

// Peer returns the session with a node, nil when there is none.
func (l *Link) Peer(node raysys.NodeID) *Peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.slots[node]; s != nil {
		return s.peer
	}
	return nil
}

// Peers returns all sessions, by node.
func (l *Link) Peers() []*Peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var peers []*Peer
	for _, node := range slices.Sorted(maps.Keys(l.slots)) {
		if p := l.slots[node].peer; p != nil {
			peers = append(peers, p)
		}
	}
	return peers
}

// Close ends every session, after what waits in its queue has been written, and waits for all that the link started.
// When ctx ends first, connections are broken.
func (l *Link) Close(ctx context.Context) error {
	l.mu.Lock()
	first := l.state != stateClosed
	l.state = stateClosed
	ln := l.listener
	peers := slices.Collect(maps.Keys(l.peers))
	if first {
		for conn := range l.shaking {
			conn.Close()
		}
	}
	l.mu.Unlock()
	l.end(ErrClosed)
	if ln != nil {
		ln.Close()
	}
	for _, relayed := range []bool{true, false} { // what runs through a session goes before it
		for _, p := range peers {
			if p.relayed == relayed {
				p.end(ErrClosed, "the node closed its link")
			}
		}
		for _, p := range peers {
			if !relayed || !p.relayed {
				continue
			}
			select {
			case <-p.wrote:
			case <-ctx.Done():
			}
		}
	}
	done := make(chan struct{}) // closed when everything has ended
	go func() {
		l.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, p := range peers {
		p.breakOff()
	}
	<-done
	return fmt.Errorf("close link: connections were broken before their last bytes were taken: %w", context.Cause(ctx))
}

// Break ends every session as the end of the process would do it: connections are reset at once, without a reason. It
// waits for nothing; Close is to follow.
func (l *Link) Break() {
	l.mu.Lock()
	l.state = stateClosed
	peers := slices.Collect(maps.Keys(l.peers))
	ln := l.listener
	for conn := range l.shaking {
		conn.Close()
	}
	l.mu.Unlock()
	if ln != nil {
		ln.Close() // first, so that a peer that dials again because of the next step is refused
	}
	for _, p := range peers {
		p.end(ErrClosed, "")
	}
}

func (l *Link) now() int64 { return int64(time.Since(l.base)) }

// polite is for one bulk connection's reader, or writer.
func (l *Link) polite() polite { return polite{calls: &l.calls, now: l.now, yield: yield} }

// keepAlive pings every peer, so that silence means something, and tells when one is silent.
func (l *Link) keepAlive() {
	ticker, brisk := time.NewTicker(l.cfg.PingEvery), time.NewTicker(l.cfg.BriskEvery)
	defer ticker.Stop()
	defer brisk.Stop()
	last := l.now()
	for {
		select {
		case <-ticker.C:
		case <-brisk.C:
			for _, p := range l.Peers() {
				if p.brisk.Load() {
					owePing(p)
				}
			}
			continue
		case <-l.life.Done():
			return
		}
		now := l.now()
		// This process did not run for a while: paused, or starved. What the peers sent meanwhile lies unread, so their
		// silence begins anew.
		stalled := now-last > 3*int64(l.cfg.PingEvery)
		last = now
		for _, p := range l.Peers() {
			p.ping(stalled)
		}
	}
}

// answerBulk is the accepting side.
func (l *Link) answerBulk(ctx context.Context, conn net.Conn, h *hello, proved bool) error {
	if cert := leaf(conn); cert != nil {
		if err := matches(cert, h.id.Cluster, h.id.Node); err != nil {
			return err
		}
	}
	p, err := l.sessionOf(ctx, h)
	if err != nil {
		return err
	}
	if p.proved && !proved {
		return unproven(h.id.Node, h.id.Cluster)
	}
	if err := writeMessage(conn, typeConfirm, nil); err != nil {
		return err
	}
	return p.bulk.attach(conn)
}

// sessionOf finds the session that a bulk connection belongs to. The dialer has its session a moment before this side
// does, so this side waits for a session that is being confirmed.
func (l *Link) sessionOf(ctx context.Context, h *hello) (*Peer, error) {
	l.mu.Lock()
	known := l.slots[h.id.Node] != nil // a bulk hello makes no slot
	l.mu.Unlock()
	if known {
		s := l.hold(h.id.Node)
		defer l.letGo(s)
		l.mu.Lock()
		waiting := s.waiting[h.session]
		l.mu.Unlock()
		if waiting != nil {
			select {
			case <-waiting:
			case <-ctx.Done():
			}
		}
		if err := s.take(ctx); err != nil {
			return nil, err
		}
		s.give()
		l.mu.Lock()
		p := s.peer
		l.mu.Unlock()
		if p != nil && p.session == h.session && !p.dialed && p.id.Incarnation == h.id.Incarnation && p.id.Cluster == h.id.Cluster {
			return p, nil
		}
	}
	return nil, reject(CodeNode, "there is no session %x with node %s here", h.session, h.id.Node)
}

// ConnectVia returns a session with a node through via, a peer of both: the one that exists, direct or not, or a new
// one. A direct session takes its place when one of the two nodes can connect again. What goes wrong with the relay or
// behind it matches ErrUnreachable: it proves nothing about the node.
func (l *Link) ConnectVia(ctx context.Context, node raysys.NodeID, via *Peer) (*Peer, error) {
	p, err := l.connect(ctx, node, func(context.Context) (net.Conn, error) { return l.routes.open(node, via) }, true)
	if err != nil {
		return nil, fmt.Errorf("connect to %s through %s: %w", node, via.Node(), err)
	}
	return p, nil
}
