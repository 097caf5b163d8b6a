package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// ownHello is what this node says of itself.
func (l *Link) ownHello() (*hello, error) {
	h := &hello{id: l.cfg.Self(), protocolMin: protocolMin, protocolMax: protocolMax, maxFrame: uint64(l.cfg.MaxFrame), maxBulk: uint64(l.cfg.MaxBulk)}
	for c, w := range l.cfg.Window {
		h.window[c] = uint64(w)
	}
	return h, h.id.check()
}

// judge checks the hello of the other side. want is the node that was dialed; empty on the accepting side, which
// checks the node that the dialer wants instead.
func (l *Link) judge(own, h *hello, want raysys.NodeID) error {
	if _, err := protocol(own.protocolMin, own.protocolMax, h.protocolMin, h.protocolMax); err != nil {
		return err
	}
	switch {
	case h.id.Node == "" || h.session == 0 || h.maxFrame < kib || h.maxBulk < kib:
		return reject(CodeMalformed, "the hello lacks a node, a session or a limit")
	case h.window[wire.Control] == 0 || h.window[wire.Replies] == 0 || h.window[wire.Requests] == 0:
		return reject(CodeMalformed, "the hello grants no credits")
	case h.id.Cluster != own.id.Cluster:
		return reject(CodeCluster, "node %s is of cluster %q, node %s of cluster %q", own.id.Node, own.id.Cluster, h.id.Node, h.id.Cluster)
	case h.id.Node == own.id.Node && h.id.Incarnation == own.id.Incarnation:
		return reject(CodeSelf, "node %s connected to itself", own.id.Node)
	case h.id.Node == own.id.Node:
		return reject(CodeSelf, "two processes call themselves node %s (incarnations %d and %d): give one another name", own.id.Node, own.id.Incarnation, h.id.Incarnation)
	case want != "" && h.id.Node != want:
		return reject(CodeNode, "node %s answers where %s was expected", h.id.Node, want)
	case want == "" && h.to != own.id.Node:
		return reject(CodeNode, "node %s answers where %s was expected", own.id.Node, h.to)
	}
	return nil
}

// admit asks what is not in the hello itself: whether its sender may be a peer. proved says that it knows the secret.
func (l *Link) admit(ctx context.Context, h *hello, conn net.Conn, proved bool) error {
	cert := leaf(conn)
	if cert != nil {
		if err := matches(cert, h.id.Cluster, h.id.Node); err != nil {
			return err
		}
	}
	if l.cfg.Admit != nil {
		if err := l.cfg.Admit(ctx, h.id, cert); err != nil {
			r := reject(CodeNotAllowed, "%v", err)
			r.Err = err
			return r
		}
	}
	if !proved && l.proves(conn) {
		return l.mayLack(ctx, h.id)
	}
	return nil
}

// secure finishes TLS's own handshake, where there is one.
func secure(ctx context.Context, conn net.Conn) error {
	if c, ok := conn.(*tls.Conn); ok {
		if err := c.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
	}
	return nil
}

// refuse tells the other side why, and gives it time to read that: closing at once would reset the connection under
// it if there is something unread.
func refuse(conn net.Conn, err error) {
	var r *Rejection
	if !errors.As(err, &r) || r.Remote {
		conn.Close()
		return
	}
	if writeMessage(conn, typeRejection, r.append(nil)) == nil {
		linger(conn, 500*time.Millisecond)
	}
	conn.Close()
}

// linger ends this side of conn and reads on until the other side ends too, for d at most.
func linger(conn net.Conn, d time.Duration) {
	c, ok := conn.(interface{ CloseWrite() error })
	if !ok || c.CloseWrite() != nil {
		return
	}
	conn.SetReadDeadline(time.Now().Add(d))
	io.CopyN(io.Discard, conn, 16*mib)
}

// receive reads a message of one of these types, or the rejection that came instead.
func receive(conn io.Reader, want ...messageType) (messageType, []byte, error) {
	t, body, err := readMessage(conn)
	switch {
	case err != nil:
		return 0, nil, err
	case slices.Contains(want, t):
		return t, body, nil
	case t == typeRejection:
		r := &Rejection{}
		if err := r.read(body); err != nil {
			return 0, nil, err
		}
		return 0, nil, r
	}
	return 0, nil, reject(CodeMalformed, "message %d came where %d was expected", t, want[0])
}

// malformed makes a decoder's error the rejection that is sent to the other side.
func malformed(err error) error {
	if errors.Is(err, ErrCorrupt) {
		return reject(CodeMalformed, "%v", err)
	}
	return err
}
