package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	bulkTries = 3
	bulkPause = 50 * time.Millisecond // before the second try, and twice that before the third
)

// begin sees to it that the connection is made.
func (b *bulk) begin() {
	p := b.peer
	if p.dialed {
		p.link.run(b.open)
		return
	}
	p.mu.Lock()
	p.owed.bulk, p.owed.any = true, true
	p.poke()
	p.mu.Unlock()
}

// wanted: the other side has something to send.
func (b *bulk) wanted() {
	b.mu.Lock()
	open := b.peer.dialed && b.conn == nil && !b.opening && !b.ended
	b.opening = b.opening || open
	b.mu.Unlock()
	if open {
		b.peer.link.run(b.open)
	}
}

// open dials. It is tried again, because the session is worth more than one full queue of the other side's listener.
func (b *bulk) open() {
	p, l := b.peer, b.peer.link
	for try := 1; ; try++ {
		err := b.dial()
		if err == nil || p.over.Load() {
			return
		}
		if try == bulkTries {
			p.fail(fmt.Errorf("open bulk connection to %s: %w", p, err))
			return
		}
		select {
		case <-time.After(bulkPause << (try - 1)):
		case <-p.readDone:
			return
		case <-l.life.Done():
			return
		}
	}
}

func (b *bulk) dial() error {
	p, l := b.peer, b.peer.link
	ctx, cancel := context.WithTimeout(l.life, l.cfg.DialTimeout+l.cfg.HandshakeTimeout)
	defer cancel()
	conn, err := p.redial(ctx)
	if err != nil {
		return dialError(err)
	}
	if l.shake(conn, false) == nil {
		return ErrClosed
	}
	defer l.shaken(conn)
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	if err := b.ask(ctx, conn); err != nil {
		conn.Close()
		return err
	}
	return b.attach(conn)
}

func (b *bulk) ask(ctx context.Context, conn net.Conn) error {
	if err := secure(ctx, conn); err != nil {
		return err
	}
	p, own := b.peer, b.peer.link.cfg.Self()
	if cert := leaf(conn); cert != nil {
		if err := matches(cert, p.id.Cluster, p.id.Node); err != nil {
			return err
		}
	}
	h := hello{id: Identity{Cluster: own.Cluster, Node: own.Node, Incarnation: own.Incarnation}, to: p.id.Node, session: p.session}
	if p.proved {
		h.nonce = newNonce()
	}
	if err := writeMessage(conn, typeBulk, h.append(nil)); err != nil {
		return err
	}
	_, by, err := p.link.answered(conn, typeBulk, &h, typeConfirm)
	if err == nil && p.proved && (by == nil || by.incarnation != p.id.Incarnation) {
		return unproven(p.id.Node, p.id.Cluster)
	}
	return err
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

// attach begins to use the connection.
func (b *bulk) attach(conn net.Conn) error {
	conn.SetDeadline(time.Time{})
	b.peer.link.shaken(conn) // it is the session's from here on
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.conn != nil {
		conn.Close()
		return errors.New("the session is over, or has its bulk connection")
	}
	b.reader.Add(1)
	if !b.peer.link.run(b.read) {
		b.reader.Done()
		conn.Close()
		return ErrClosed
	}
	if !b.peer.link.run(b.write) {
		conn.Close() // the reader ends with it
		return ErrClosed
	}
	b.conn, b.opening = conn, false
	return nil
}
