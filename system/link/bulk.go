package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/raysys/raysys"
)

// bulk is a session's second connection, for what is large. The first SendBulk opens it, and always from the side that
// dialed the session: that direction is known to work, and there can be no two.
type bulk struct {
	peer   *Peer
	reader sync.WaitGroup

	mu      sync.Mutex // guards the rest
	cond    *sync.Cond // of the writer: there is a frame, or it is over
	conn    net.Conn   // nil until it is open
	opening bool
	ended   bool
	queue   []bulkFrame
	bytes   int
}

type bulkFrame struct {
	kind    Kind
	payload []byte
}

const (
	bulkTries = 3
	bulkPause = 50 * time.Millisecond // before the second try, and twice that before the third
)

func (b *bulk) init(p *Peer) {
	b.peer = p
	b.cond = sync.NewCond(&b.mu)
}

// SendBulk queues a frame of up to MaxBulk bytes for the bulk connection; payload passes to the link. It has no order
// with Send, and its handler runs beside those of the express connection. The errors are those of Send; a bulk
// connection that breaks, or cannot be made, ends the session.
func (p *Peer) SendBulk(kind Kind, payload []byte) error {
	if kind < FirstKind {
		return fmt.Errorf("send bulk to %s: kind %d is not for users", p, kind)
	}
	if len(payload) > p.maxBulk {
		return fmt.Errorf("send bulk to %s: %w: %d bytes, the limit is %d", p, raysys.ErrTooLarge, len(payload), p.maxBulk)
	}
	copies := 1
	if chaos := p.link.cfg.Chaos; chaos != nil {
		switch chaos(p.id.Node, Bulk, kind) {
		case Drop:
			return nil
		case Duplicate:
			copies = 2
		}
	}
	for range copies {
		if err := p.bulk.push(kind, payload); err != nil {
			return err
		}
	}
	return nil
}

func (b *bulk) push(kind Kind, payload []byte) error {
	p := b.peer
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusal
	}
	if n := b.bytes + headerSize + len(payload); n > p.link.cfg.BulkQueue && len(b.queue) > 0 {
		b.mu.Unlock()
		return fmt.Errorf("send bulk to %s: %w: %d bytes wait for it", p, raysys.ErrOverloaded, n)
	}
	b.queue = append(b.queue, bulkFrame{kind, payload})
	b.bytes += headerSize + len(payload)
	open := b.conn == nil && !b.opening
	b.opening = b.opening || open
	b.mu.Unlock()
	b.cond.Signal()
	if open {
		b.begin()
	}
	return nil
}

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

func (b *bulk) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
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
	if !l.shake(conn, math.MaxInt) {
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
	h := bulkHello{cluster: own.Cluster, from: own.Node, incarnation: own.Incarnation, to: p.id.Node, session: p.session}
	if err := writeMessage(conn, typeBulk, h.append(nil)); err != nil {
		return err
	}
	_, err := expect(conn, typeConfirm)
	return err
}

// answerBulk is the accepting side.
func (l *Link) answerBulk(ctx context.Context, conn net.Conn, body []byte) error {
	var h bulkHello
	if err := h.read(body); err != nil {
		return malformed(err)
	}
	if cert := leaf(conn); cert != nil {
		if err := matches(cert, h.cluster, h.from); err != nil {
			return err
		}
	}
	p, err := l.sessionOf(ctx, &h)
	if err != nil {
		return err
	}
	if err := writeMessage(conn, typeConfirm, nil); err != nil {
		return err
	}
	return p.bulk.attach(conn)
}

// sessionOf finds the session that a bulk connection belongs to. The dialer has its session a moment before this side
// does, so what is about to be decided is waited for.
func (l *Link) sessionOf(ctx context.Context, h *bulkHello) (*Peer, error) {
	l.mu.Lock()
	known := l.slots[h.from] != nil // nobody makes slots with a bulk hello
	l.mu.Unlock()
	if known {
		s := l.hold(h.from)
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
		if p != nil && p.session == h.session && !p.dialed && p.id.Incarnation == h.incarnation && p.id.Cluster == h.cluster {
			return p, nil
		}
	}
	return nil, reject(CodeNode, "there is no session %x with node %s here", h.session, h.from)
}

// attach begins to use the connection.
func (b *bulk) attach(conn net.Conn) error {
	conn.SetDeadline(time.Time{})
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

func (b *bulk) write() {
	for {
		b.mu.Lock()
		for len(b.queue) == 0 && !b.ended {
			b.cond.Wait()
		}
		if b.ended {
			b.queue, b.bytes = nil, 0
			b.mu.Unlock()
			return
		}
		f, conn := b.queue[0], b.conn
		b.queue[0] = bulkFrame{}
		b.queue = b.queue[1:]
		b.mu.Unlock()
		var head [headerSize]byte
		pieces := net.Buffers{appendHeader(head[:0], len(f.payload), f.kind, Bulk), f.payload}
		_, err := pieces.WriteTo(conn)
		n := headerSize + len(f.payload)
		b.mu.Lock()
		b.bytes -= n
		b.mu.Unlock()
		if err != nil {
			b.peer.fail(brokenError(err))
			return
		}
		b.peer.counts.sent(Bulk, 1, n)
	}
}

func (b *bulk) read() {
	defer b.reader.Done()
	b.mu.Lock() // attach sets conn before it lets go
	conn := b.conn
	b.mu.Unlock()
	if conn == nil {
		return
	}
	for !b.peer.over.Load() {
		if err := b.readFrame(conn); err != nil {
			b.peer.fail(err)
			return
		}
	}
}

func (b *bulk) readFrame(conn net.Conn) (err error) {
	p := b.peer
	var head [headerSize]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return brokenError(err)
	}
	h := readHeader(head[:])
	if err := h.check(p.link.cfg.MaxBulk, true); err != nil {
		return err
	}
	payload := make([]byte, h.length)
	if _, err := io.ReadFull(conn, payload); err != nil {
		return brokenError(err)
	}
	p.heard.Store(p.link.now())
	p.counts.received(Bulk, 1, headerSize+h.length)
	f := p.link.handlers[h.kind]
	if f == nil {
		p.counts.unknown.Add(1)
		return nil
	}
	if p.over.Load() {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			if p.link.cfg.Panicked != nil {
				p.link.cfg.Panicked(p, h.kind, v, debug.Stack())
			}
			err = fmt.Errorf("%w on a frame of kind %d: %v", ErrHandler, h.kind, v)
		}
	}()
	f(p, Bulk, payload)
	return nil
}

// end stops reading and writing. The connection stays until the other side has had its last words on the express one:
// seeing this one close first, it would take that for a death.
func (b *bulk) end() {
	b.mu.Lock()
	b.ended = true
	if b.conn != nil {
		b.conn.SetDeadline(time.Now())
	}
	b.mu.Unlock()
	b.cond.Broadcast()
}

// wait returns when no handler runs any more.
func (b *bulk) wait() { b.reader.Wait() }

func (b *bulk) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil {
		b.conn.Close()
	}
}
