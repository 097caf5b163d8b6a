package link

import (
	"fmt"
	"net"
)

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
