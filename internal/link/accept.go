package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// acceptAll takes connections until the listener is closed.
func (l *Link) acceptAll(ln net.Listener) {
	var pause time.Duration
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || l.life.Err() != nil {
				return
			}
			// Most likely no file descriptor is free: the connections that exist go on, and a new one may succeed
			// later.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
			case <-l.life.Done():
			}
			continue
		}
		pause = 0
		l.take(conn, false)
	}
}

// take begins the handshake of an accepted connection.
func (l *Link) take(conn net.Conn, relayed bool) {
	if s := l.shake(conn, true); s != nil && !l.run(func() { l.accept(s, relayed) }) {
		l.shaken(conn)
		conn.Close()
	}
}

// accept makes an accepted connection a session, or the bulk connection of one.
func (l *Link) accept(s *handshake, relayed bool) {
	conn := s.conn
	defer l.shaken(conn)
	ctx, cancel := context.WithTimeoutCause(l.life, l.cfg.HandshakeTimeout, fmt.Errorf("%w within %s of connecting", ErrUnreachable, l.cfg.HandshakeTimeout))
	defer cancel()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	var h hello
	err := l.answer(ctx, s, &h, relayed)
	if err == nil {
		return
	}
	if why := l.gaveWay(s); why != nil {
		err = why
	}
	refuse(conn, err)
	if l.cfg.Rejected != nil && !errors.Is(err, CodeDuplicate) && l.life.Err() == nil {
		l.cfg.Rejected(conn.RemoteAddr().String(), h.id, err)
	}
}

// answer is the accepting side of the handshake.
func (l *Link) answer(ctx context.Context, shaking *handshake, h *hello, relayed bool) error {
	conn := shaking.conn
	if err := secure(ctx, conn); err != nil {
		return err
	}
	in := &counted{shaking, l}
	t, body, err := readMessage(in)
	if err != nil {
		return err
	}
	if t != typeHello && t != typeBulk {
		return reject(CodeMalformed, "message %d came first", t)
	}
	if err := h.read(body); err != nil {
		return malformed(err)
	}
	own, err := l.ownHello()
	if err != nil {
		return err
	}
	if t == typeHello {
		if err := l.judge(own, h, ""); err != nil {
			return err
		}
	}
	proved, err := l.challenge(conn, in, t, h, &own.id)
	if err != nil {
		return err
	}
	l.spoke(shaking)
	if t == typeBulk {
		return l.answerBulk(ctx, conn, h, proved)
	}
	if err := l.admit(ctx, h, conn, proved); err != nil {
		return err
	}
	s := l.hold(h.id.Node)
	defer l.letGo(s)
	own.session = h.session
	of := peerOf{session: h.session, relayed: relayed, proved: proved}
	if own.id.Node < h.id.Node {
		return l.answerYounger(ctx, conn, s, own, h, of)
	}
	return l.answerElder(ctx, conn, s, own, h, of)
}

// answerYounger: this node is the elder and decides now.
func (l *Link) answerYounger(ctx context.Context, conn net.Conn, s *slot, own, h *hello, of peerOf) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	if r := l.claim(s, h, of.relayed); r != nil {
		return r
	}
	own.order = l.orders.Add(1)
	if err := writeMessage(conn, typeHello, own.append(nil)); err != nil {
		return err
	}
	if _, _, err := receive(conn, typeConfirm); err != nil {
		return err
	}
	of.order = own.order
	return l.install(s, newPeer(l, s, conn, h, of))
}

// answerElder: the elder dialed and decides after this node's hello.
func (l *Link) answerElder(ctx context.Context, conn net.Conn, s *slot, own, h *hello, of peerOf) error {
	defer l.await(s, h.session)()
	if err := writeMessage(conn, typeHello, own.append(nil)); err != nil {
		return err
	}
	_, body, err := receive(conn, typeConfirm)
	if err != nil {
		return err
	}
	var c confirm
	if err := c.read(body); err != nil {
		return malformed(err)
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	if r := l.follow(s, h, c.order, of.relayed); r != nil {
		return r
	}
	of.order = c.order
	return l.install(s, newPeer(l, s, conn, h, of))
}

// confirm ends a handshake.
type confirm struct{ order uint64 }

func (c *confirm) fields() []field { return []field{{tagOrder, &c.order}} }

func (c *confirm) append(dst []byte) []byte { return appendFields(dst, c.fields()) }

func (c *confirm) read(b []byte) error { return readFields(b, c.fields()) }
