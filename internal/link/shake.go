package link

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
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

// acceptAll takes connections until the listener is closed.
func (l *Link) acceptAll(ln net.Listener) {
	pause := backoff.Doubling{First: 5 * time.Millisecond, Longest: time.Second}
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || l.life.Err() != nil {
				return
			}
			// Most likely no file descriptor is free: the connections that exist go on, and a new one may succeed
			// later.
			pause.Wait(l.life)
			continue
		}
		pause.Reset()
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

// An accepted connection is silent until its first message, the hello, is complete, and where its dialer is to prove itself
// (see proof.go), until it has. Any process that reaches the port
// can hold such connections open, so their number is bounded, and the bytes of unfinished messages with them. At a
// limit the oldest silent one gives way: an honest dialer speaks at once and is past this soon, and one that is
// closed dials again.
const (
	// maxShaking bounds the handshakes that others may have with this node at a time: a slow one costs no more than its
	// place, and a cluster that comes back together fits.
	maxShaking = 1024
	// maxSilent bounds the silent connections of one address: a host full of nodes that start together fits.
	maxSilent = 256
	// maxHellos bounds the bytes of all unfinished messages together: some hundred hellos of the largest programs, or many
	// thousands of the usual size.
	maxHellos = 64 * mib
)

// handshake is a connection until it is a session's.
type handshake struct {
	conn   net.Conn
	from   string // the address of the dialer, without the port; empty for this node's own
	number uint64 // in the order in which they came

	// Guarded by the link's mu.
	silent bool
	bytes  int   // of its unfinished message
	why    error // it gave way
}

// shake notes a connection in its handshake, so that Close can break it. It returns nil, and closes conn, when the link is
// closed, or when others opened conn and too many handshakes are under way.
func (l *Link) shake(conn net.Conn, theirs bool) *handshake {
	s := &handshake{conn: conn, silent: theirs}
	if theirs {
		addr := conn.RemoteAddr().String()
		if host, _, err := net.SplitHostPort(addr); err == nil {
			addr = host
		}
		s.from = addr
	}
	l.mu.Lock()
	open := l.state == stateOpen
	ok := open
	var before *handshake
	if open && theirs {
		before, ok = l.roomLocked(s.from)
	}
	if ok {
		l.handshakes++
		s.number = l.handshakes
		l.shaking[conn] = s
	}
	l.mu.Unlock()
	before.close()
	if ok {
		return s
	}
	conn.Close()
	if open && l.cfg.Rejected != nil {
		l.cfg.Rejected(conn.RemoteAddr().String(), Identity{}, fmt.Errorf("%d handshakes are under way", maxShaking))
	}
	return nil
}

// roomLocked makes room for one more handshake with an address: it returns the handshake to close for that, which may
// be nil, and whether there is room. mu is held.
func (l *Link) roomLocked(from string) (*handshake, bool) {
	here, all := 0, 0
	for _, o := range l.shaking {
		if o.from != "" {
			all++
		}
		if o.silent && o.from == from {
			here++
		}
	}
	switch {
	case here >= maxSilent:
		s := l.giveWayLocked(from, fmt.Errorf("closed for a newer one: %d connections of %s have sent no hello or no proof", here, from))
		return s, true
	case all >= maxShaking:
		s := l.giveWayLocked("", fmt.Errorf("closed for a newer one: %d handshakes are under way, and it has sent no hello or no proof", all))
		return s, s != nil
	}
	return nil, true
}

// giveWayLocked forgets the oldest silent connection of an address, or of all, which the caller closes without mu; nil when
// there is none. mu is held.
func (l *Link) giveWayLocked(from string, why error) *handshake {
	var oldest *handshake
	for _, o := range l.shaking {
		if o.silent && (from == "" || o.from == from) && (oldest == nil || o.number < oldest.number) {
			oldest = o
		}
	}
	if oldest != nil {
		oldest.why = why
		l.shakenLocked(oldest.conn)
	}
	return oldest
}

// close closes a connection that gave way.
func (s *handshake) close() {
	if s != nil {
		s.conn.Close()
	}
}

// counted reads what comes in a handshake before its connection has spoken, and counts the bytes.
type counted struct {
	*handshake
	link *Link
}

// Read implements io.Reader.
func (s *counted) Read(b []byte) (int, error) {
	n, err := s.conn.Read(b)
	s.link.count(s.handshake, n).close()
	return n, err
}

// count notes n bytes of a first message. It returns the handshake to close when there are too many of them, else
// nil.
func (l *Link) count(s *handshake, n int) *handshake {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shaking[s.conn] != s {
		return nil
	}
	s.bytes += n
	l.hellos += n
	if l.hellos <= maxHellos {
		return nil
	}
	return l.giveWayLocked("", fmt.Errorf("closed for others: %d bytes of unfinished handshakes have come", l.hellos))
}

// spoke records that the hello has come, and the proof where one is due: the connection is no longer the first to give way.
func (l *Link) spoke(s *handshake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.silent = false
	l.hellos -= s.bytes
	s.bytes = 0
}

// shaken forgets a handshake that is over.
func (l *Link) shaken(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shakenLocked(conn)
}

func (l *Link) shakenLocked(conn net.Conn) {
	if s := l.shaking[conn]; s != nil {
		l.hellos -= s.bytes
		s.bytes = 0
		delete(l.shaking, conn)
	}
}

// gaveWay returns why a handshake was closed for others, nil when it was not.
func (l *Link) gaveWay(s *handshake) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.why
}

// polite lets threads that handle small frames go first. A bulk connection at full speed keeps its thread busy, and
// the system's scheduler would let a thread that wakes for a small frame wait until the other's slice is over, for
// milliseconds. While there are calls, what one system call moves is therefore short, and after each the thread
// offers the processor. A thread that computes takes such an offer too, and keeps the processor for a whole slice. An
// offer that cost so much is not repeated before as much time has passed: one half of the time is more than the
// scheduler would take away unasked.
type polite struct {
	calls *atomic.Int64 // when the link had a request or a reply last
	now   func() int64
	yield func() // to the system's other threads
	until int64  // no offer before that
}

const (
	// politeFor is for how long after a request or reply others are expected, in nanoseconds. Offers cost a transfer
	// a tenth of its speed: it does not pay that for occasional calls.
	politeFor = 10e6
	// politeCost is what an offer may cost, in nanoseconds, before it counts as taken by a thread that computes.
	politeCost = 500e3

	politeCut = 128 * kib
	cutBytes  = 1024 * kib // while there are no calls
)

// cut is how much of a bulk frame the next system call is to move.
func (p *polite) cut() int {
	if p.noCalls(p.now()) {
		return cutBytes
	}
	return politeCut
}

func (p *polite) noCalls(now int64) bool { return now-p.calls.Load() > politeFor }

func (p *polite) offer() {
	begin := p.now()
	if begin < p.until || p.noCalls(begin) {
		return
	}
	p.yield()
	end := p.now()
	if cost := end - begin; cost > politeCost {
		p.until = end + cost
	}
}

// mac is what a side that knows the secret makes of a dialer's first message and the challenge to it. The message names the
// cluster, both nodes and the session; a field that is new in it must be added here where the proof is to cover it.
func (l *Link) mac(by side, first messageType, h *hello, challenge *proof) string {
	kind := uint64(first) // a proof for an express connection opens no bulk connection
	covered := appendFields(nil, []field{
		{1, (*string)(&by)},
		{2, &kind},
		{3, &h.id.Cluster},
		{4, (*string)(&h.id.Node)},
		{5, &h.id.Incarnation},
		{6, &h.nonce},
		{7, (*string)(&h.to)},
		{8, &challenge.incarnation},
		{9, &challenge.nonce},
		{10, &h.session},
	})
	m := hmac.New(sha256.New, l.cfg.Secret)
	m.Write(covered)
	return string(m.Sum(nil))
}

// proves reports whether the two sides of conn prove themselves by the secret: with TLS their certificates do.
func (l *Link) proves(conn net.Conn) bool {
	_, encrypted := conn.(*tls.Conn)
	return len(l.cfg.Secret) > 0 && !encrypted
}

// answered returns the answer, of type want, to own, which this node has sent as the first message. by is the challenge
// that came before it, whose MAC was right; nil when the other side asked for no proof and gave none.
func (l *Link) answered(conn net.Conn, first messageType, own *hello, want messageType) (body []byte, by *proof, err error) {
	if own.nonce == "" {
		_, body, err = receive(conn, want)
		return body, nil, err
	}
	t, body, err := receive(conn, want, typeChallenge)
	if err != nil || t == want {
		return body, nil, err
	}
	by = &proof{}
	if err := by.read(body); err != nil {
		return nil, nil, malformed(err)
	}
	if len(by.nonce) < nonceSize || !hmac.Equal([]byte(by.mac), []byte(l.mac(acceptingSide, first, own, by))) {
		return nil, nil, unproven(own.to, own.id.Cluster)
	}
	ours := proof{mac: l.mac(dialingSide, first, own, by)}
	if err := writeMessage(conn, typeProof, ours.append(nil)); err != nil {
		return nil, nil, err
	}
	_, body, err = receive(conn, want)
	return body, by, err
}

// challenge has the dialer of a plain connection, which sent h first, prove itself, and proves this node to it. It returns
// false for a dialer that offers no proof.
func (l *Link) challenge(conn net.Conn, in io.Reader, first messageType, h *hello, own *Identity) (proved bool, err error) {
	if h.nonce == "" || !l.proves(conn) {
		return false, nil
	}
	// What another node is to prove, this one must not sign.
	if h.id.Cluster != own.Cluster || h.to != own.Node {
		return false, reject(CodeNode, "node %s of cluster %q answers where %s of cluster %q was expected", own.Node, own.Cluster, h.to, h.id.Cluster)
	}
	if len(h.nonce) < nonceSize {
		return false, reject(CodeMalformed, "a nonce of %d bytes, it needs %d", len(h.nonce), nonceSize)
	}
	asked := proof{incarnation: own.Incarnation, nonce: newNonce()}
	asked.mac = l.mac(acceptingSide, first, h, &asked)
	if err := writeMessage(conn, typeChallenge, asked.append(nil)); err != nil {
		return false, err
	}
	_, body, err := receive(in, typeProof)
	if err != nil {
		return false, err
	}
	var got proof
	if err := got.read(body); err != nil {
		return false, malformed(err)
	}
	if !hmac.Equal([]byte(got.mac), []byte(l.mac(dialingSide, first, h, &asked))) {
		return false, unproven(h.id.Node, own.Cluster)
	}
	return true, nil
}

// mayLack decides about a peer that proved nothing where a proof was due.
func (l *Link) mayLack(ctx context.Context, who Identity) error {
	if l.cfg.Unproven == nil {
		return unproven(who.Node, who.Cluster)
	}
	if err := l.cfg.Unproven(ctx, who); err != nil {
		r := unproven(who.Node, who.Cluster)
		r.Text, r.Err = fmt.Sprintf("%s: %v", r.Text, err), err
		return r
	}
	return nil
}
