package link

import (
	"fmt"
	"io"
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

func (b *bulk) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
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
		n := headerSize + len(f.payload)
		b.peer.counts.sent(Bulk, 1, n)
		var head [headerSize]byte
		pieces := net.Buffers{appendHeader(head[:0], len(f.payload), f.kind, Bulk), f.payload}
		_, err := pieces.WriteTo(conn)
		b.mu.Lock()
		b.bytes -= n
		b.mu.Unlock()
		if err != nil {
			b.peer.fail(brokenError(err))
			return
		}
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
