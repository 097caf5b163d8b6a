package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

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
