package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/raysys/raysys"
)

// dialing is an attempt to reach a node, shared by all callers that want that node.
type dialing struct {
	done chan struct{} // closed by finish
	peer *Peer
	err  error
}

// finish is called with the link's mu held, once.
func (d *dialing) finish(p *Peer, err error) {
	d.peer, d.err = p, err
	close(d.done)
}

// Connect returns the direct session with a node, and dials addr if there is none. Callers that want the same node at
// the same time share one attempt, which goes on when ctx ends. The error matches ErrRefused, ErrUnreachable or a
// Code where one of them is the reason.
func (l *Link) Connect(ctx context.Context, node raysys.NodeID, addr string) (*Peer, error) {
	p, err := l.connect(ctx, node, func(ctx context.Context) (net.Conn, error) { return l.cfg.Transport.Dial(ctx, addr) }, false)
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", node, addr, err)
	}
	return p, nil
}

func (l *Link) connect(ctx context.Context, node raysys.NodeID, dial dialFunc, relayed bool) (*Peer, error) {
	d, p, err := l.attempt(node, dial, relayed)
	if p != nil || err != nil {
		return p, err
	}
	select {
	case <-d.done:
		return d.peer, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type dialFunc func(ctx context.Context) (net.Conn, error)

// attempt returns the session with a node, or the attempt to have one, which it begins if need be.
func (l *Link) attempt(node raysys.NodeID, dial dialFunc, relayed bool) (*dialing, *Peer, error) {
	own := l.cfg.Self().Node
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state == stateNew:
		return nil, nil, errors.New("the link is not started")
	case l.state == stateClosed:
		return nil, nil, ErrClosed
	case node == "":
		return nil, nil, errors.New("no node is named")
	case node == own:
		return nil, nil, reject(CodeSelf, "node %s wants to connect to itself", own)
	}
	s := l.holdLocked(node)
	if s.peer != nil && (relayed || !s.peer.relayed) {
		l.letGoLocked(s)
		return nil, s.peer, nil
	}
	current := &s.dialing
	if relayed {
		current = &s.relying
	}
	if d := *current; d != nil {
		l.letGoLocked(s)
		return d, nil, nil
	}
	d := &dialing{done: make(chan struct{})}
	*current = d
	l.running.Go(func() {
		p, err := l.dial(s, peerOf{dialed: true, redial: dial, relayed: relayed})
		l.mu.Lock()
		defer l.mu.Unlock()
		if *current == d { // else a connection from the other side came first
			*current = nil
			d.finish(p, err)
		}
		l.letGoLocked(s)
	})
	return d, nil, nil
}

// maxDials bounds how often one attempt begins again because the other side knew of another session.
const maxDials = 4

// dial makes a session by a connection of its own, or finds that the other side has made one.
func (l *Link) dial(s *slot, of peerOf) (*Peer, error) {
	gone := uint64(0)
	for range maxDials {
		p, err := l.dialOnce(s, of, gone)
		var r *Rejection
		if !errors.As(err, &r) || r.Code != CodeDuplicate {
			return p, err
		}
		if p := l.known(s, r.session, of.relayed); p != nil {
			return p, nil
		}
		gone = r.session
	}
	return nil, fmt.Errorf("%w: %s insists on sessions that are over", ErrUnreachable, s.node)
}

// known waits until it is decided what became of a session that the other side has. It returns nil when nothing did:
// then that session is gone.
func (l *Link) known(s *slot, session uint64, relayed bool) *Peer {
	for {
		l.mu.Lock()
		p, waiting := s.peer, s.waiting[session]
		if p != nil && (p.session == session || relayed || !p.relayed) {
			l.mu.Unlock()
			return p
		}
		l.mu.Unlock()
		if waiting == nil {
			return nil
		}
		<-waiting // bounded by the timeout of that handshake
	}
}

func (l *Link) dialOnce(s *slot, of peerOf, gone uint64) (p *Peer, err error) {
	ctx, cancel := context.WithTimeoutCause(l.life, l.cfg.DialTimeout, fmt.Errorf("%w within %s", ErrUnreachable, l.cfg.DialTimeout))
	conn, err := of.redial(ctx)
	expired := ctx.Err() != nil && l.life.Err() == nil
	cancel()
	switch {
	case err != nil && l.life.Err() != nil:
		return nil, ErrClosed
	case err != nil && expired:
		return nil, fmt.Errorf("%w within %s: %w", ErrUnreachable, l.cfg.DialTimeout, err)
	case err != nil:
		return nil, dialError(err)
	}
	if l.shake(conn, false) == nil {
		return nil, ErrClosed
	}
	defer l.shaken(conn)
	ctx, cancel = context.WithTimeoutCause(l.life, l.cfg.HandshakeTimeout, fmt.Errorf("%w within %s of connecting", ErrUnreachable, l.cfg.HandshakeTimeout))
	defer cancel()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	p, err = l.ask(ctx, conn, s, of, gone)
	if err != nil {
		refuse(conn, err)
		if l.life.Err() != nil {
			err = ErrClosed
		}
		return nil, of.doubt(brokenError(err))
	}
	return p, nil
}

// ask is the dialing side of the handshake.
func (l *Link) ask(ctx context.Context, conn net.Conn, s *slot, of peerOf, gone uint64) (*Peer, error) {
	if err := secure(ctx, conn); err != nil {
		return nil, err
	}
	own, err := l.ownHello()
	if err != nil {
		return nil, err
	}
	own.to, own.session, own.gone = s.node, draw(), gone
	if l.proves(conn) {
		own.nonce = newNonce()
	}
	if err := writeMessage(conn, typeHello, own.append(nil)); err != nil {
		return nil, err
	}
	body, by, err := l.answered(conn, typeHello, own, typeHello)
	if err != nil {
		return nil, err
	}
	var h hello
	if err := h.read(body); err != nil {
		return nil, malformed(err)
	}
	if err := l.judge(own, &h, s.node); err != nil {
		return nil, err
	}
	if h.session != own.session || by != nil && by.incarnation != h.id.Incarnation {
		return nil, reject(CodeMalformed, "the answer is to another hello")
	}
	of.proved = by != nil
	if err := l.admit(ctx, &h, conn, of.proved); err != nil {
		return nil, err
	}
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.give()
	of.session, of.order = own.session, h.order
	var r *Rejection
	if own.id.Node < h.id.Node {
		of.order = l.orders.Add(1)
		r = l.claim(s, &h, of.relayed)
	} else {
		r = l.follow(s, &h, of.order, of.relayed)
	}
	if r != nil {
		return nil, r
	}
	c := confirm{order: of.order}
	if err := writeMessage(conn, typeConfirm, c.append(nil)); err != nil {
		return nil, err
	}
	p := newPeer(l, s, conn, &h, of)
	return p, l.install(s, p)
}

// draw returns a number for a session; never zero.
func draw() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}

// slot is where the connections of one pair of nodes meet. Both may dial at the same time, and again while the other
// has not noticed that the last session is over; still there must be one session, the same on both sides. So one node
// of the pair decides, the elder (the lower name): it takes a connection if it has no session, or if the other says
// that the session it has is gone, and rejects it as a duplicate otherwise. The younger follows: a session that the
// elder confirms replaces its own. If it is rejected because of a session that it does not have, it dials again and
// reports that session as gone.
type slot struct {
	node raysys.NodeID
	turn chan struct{} // of capacity 1, full while a goroutine decides or puts a session in place

	// Guarded by the link's mu.
	users   int
	peer    *Peer
	last    *Peer                    // went down; Down has not returned
	dialing *dialing                 // nil when no goroutine dials
	relying *dialing                 // the same, through a relay
	waiting map[uint64]chan struct{} // sessions that the elder has not confirmed yet; closed when that is decided
}

// hold returns the slot of a node, which stays until it is let go as often.
func (l *Link) hold(node raysys.NodeID) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holdLocked(node)
}

func (l *Link) holdLocked(node raysys.NodeID) *slot {
	s := l.slots[node]
	if s == nil {
		s = &slot{node: node, turn: make(chan struct{}, 1), waiting: map[uint64]chan struct{}{}}
		l.slots[node] = s
	}
	s.users++
	return s
}

func (l *Link) letGo(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letGoLocked(s)
}

func (l *Link) letGoLocked(s *slot) {
	s.users--
	if s.users == 0 {
		delete(l.slots, s.node)
	}
}

func (s *slot) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another connection with %s: %w", s.node, context.Cause(ctx))
	}
}

func (s *slot) give() { <-s.turn }

// await notes a session that the elder has yet to confirm, until the returned function is called.
func (l *Link) await(s *slot, session uint64) func() {
	decided := make(chan struct{})
	l.mu.Lock()
	s.waiting[session] = decided
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		delete(s.waiting, session)
		l.mu.Unlock()
		close(decided)
	}
}

// claim is the elder's decision about a connection, made with the turn taken. It returns nil when the connection may
// become the session: an earlier session is over then.
func (l *Link) claim(s *slot, h *hello, relayed bool) *Rejection {
	l.mu.Lock()
	old := s.peer
	l.mu.Unlock()
	if old == nil {
		return nil
	}
	better := old.relayed && !relayed
	if old.id.Incarnation == h.id.Incarnation && old.session != h.gone && !better {
		r := reject(CodeDuplicate, "%s has session %x with incarnation %d of %s", l.cfg.Self().Node, old.session, h.id.Incarnation, s.node)
		r.session = old.session
		return r
	}
	l.replace(old, h, relayed)
	return nil
}

// follow is the younger's side, about a connection that the elder confirmed as its order-th session.
func (l *Link) follow(s *slot, h *hello, order uint64, relayed bool) *Rejection {
	l.mu.Lock()
	old := s.peer
	l.mu.Unlock()
	if old == nil {
		return nil
	}
	if old.id.Incarnation == h.id.Incarnation && order < old.order {
		return reject(CodeDuplicate, "a later session with %s took this one's place", s.node)
	}
	l.replace(old, h, relayed)
	return nil
}

// replace ends a session in favour of another, which begins when the user knows (see install).
func (l *Link) replace(old *Peer, h *hello, relayed bool) {
	why := "by a new one"
	switch {
	case old.id.Incarnation != h.id.Incarnation:
		why = fmt.Sprintf("by one of incarnation %d", h.id.Incarnation)
	case old.relayed && !relayed:
		why = "by a direct one"
	}
	old.end(fmt.Errorf("%w %s", ErrReplaced, why), "session replaced "+why)
}

// install puts a session in place, with the turn taken, and lets it begin.
func (l *Link) install(s *slot, p *Peer) error {
	p.conn.SetDeadline(time.Time{})
	l.mu.Lock()
	for s.peer != nil || s.last != nil { // both over, and the turn keeps others from coming
		before := s.peer
		if before == nil {
			before = s.last
		}
		l.mu.Unlock()
		<-before.done
		l.mu.Lock()
	}
	if l.state != stateOpen {
		l.mu.Unlock()
		p.conn.Close()
		return ErrClosed
	}
	l.peers[p] = struct{}{}
	l.shakenLocked(p.conn) // it is the session's from here on
	s.peer = p
	s.users++
	l.running.Add(2) // its reader and its writer
	l.mu.Unlock()
	if l.cfg.Up != nil {
		l.cfg.Up(p)
	}
	p.start()
	l.mu.Lock()
	if d := s.dialing; d != nil && !p.relayed {
		s.dialing = nil
		d.finish(p, nil)
	}
	if d := s.relying; d != nil {
		s.relying = nil
		d.finish(p, nil)
	}
	l.mu.Unlock()
	return nil
}

// leave takes a session that has just gone down out of its place.
func (l *Link) leave(p *Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.slot.peer == p {
		p.slot.peer, p.slot.last = nil, p
	}
}

// left ends what leave began, or is about to: the user knows.
func (l *Link) left(p *Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.slot.peer == p {
		p.slot.peer = nil
	}
	delete(l.peers, p)
	if p.slot.last == p {
		p.slot.last = nil
	}
	l.letGoLocked(p.slot)
	close(p.done)
}
