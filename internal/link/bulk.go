package link

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// bulk is a session's second connection, for large frames. The first SendBulk or SendBody opens it, and always from
// the side that dialed the session: that direction is known to work, and there can be no two.
type bulk struct {
	peer   *Peer
	reader sync.WaitGroup

	mu        sync.Mutex // guards the rest
	cond      *sync.Cond // of the writer: there is a frame, or it is over
	conn      net.Conn   // nil until it is open
	opening   bool
	ended     bool
	queue     bulkQueue
	bytes     [2]int // of the queue and of the frame being written: of SendBulk, and of SendBody
	frames    uint64 // that were queued
	countedTo uint64 // the last count that was sent to the other side

	landed  *sync.Cond // placing or landing is another
	placing bool       // the reader asks a sink for a landing
	landing Landing    // whose memory the reader reads into
	kicked  bool       // the read deadline has passed because Abandon wants that memory
}

var (
	longAgo = time.Unix(1, 0)
	never   time.Time
)

func (b *bulk) init(p *Peer) {
	b.peer = p
	b.cond = sync.NewCond(&b.mu)
	b.landed = sync.NewCond(&b.mu)
}

// bulkFrame is a frame that waits.
type bulkFrame struct {
	kind    wire.Kind
	payload []byte // of SendBulk
	written func([]byte)
	apart   bool // it is of SendBody:
	headLen int
	head    [MaxHead]byte
	body    Body
	size    int // of all behind the header
}

// account is which of bulk.bytes the frame counts in: what SendBody sends, its user bounds more closely, and it is not to
// make calls fail whose arguments are large.
func (f *bulkFrame) account() int {
	if f.apart {
		return 1
	}
	return 0
}

// bulkQueue is a ring, so that a queue in use allocates nothing.
type bulkQueue struct {
	frames []bulkFrame
	first  int
	n      int
}

func (q *bulkQueue) push(f *bulkFrame) {
	if q.n == len(q.frames) {
		bigger := make([]bulkFrame, max(8, 2*q.n))
		for i := range q.n {
			bigger[i] = q.frames[(q.first+i)%q.n]
		}
		q.frames, q.first = bigger, 0
	}
	q.frames[(q.first+q.n)%len(q.frames)] = *f
	q.n++
}

func (q *bulkQueue) pop(f *bulkFrame) {
	*f = q.frames[q.first]
	q.frames[q.first] = bulkFrame{}
	q.first = (q.first + 1) % len(q.frames)
	q.n--
}

// SendBulk queues a frame of up to MaxBulk bytes for the bulk connection; payload passes to the link. It has no order
// with Send, and its handler runs beside those of the express connection. The errors are those of Send; a bulk
// connection that breaks, or cannot be made, ends the session.
func (p *Peer) SendBulk(kind wire.Kind, payload []byte) error {
	return p.SendFrame(kind, payload, nil)
}

// SendFrame is SendBulk; written, unless it is nil, is called with payload when the link reads that no more, or never where the session
// ends before.
func (p *Peer) SendFrame(kind wire.Kind, payload []byte, written func([]byte)) error {
	if kind < wire.FirstKind {
		return fmt.Errorf("send bulk to %s: kind %d is not for users", p, kind)
	}
	if len(payload) > p.maxBulk {
		return fmt.Errorf("send bulk to %s: %w: %d bytes, the limit is %d", p, raysys.ErrTooLarge, len(payload), p.maxBulk)
	}
	return p.bulk.send(&bulkFrame{kind: kind, payload: payload, written: written, size: len(payload)})
}

// send queues a frame the way Config.Chaos wants it. Reorder means nothing here: frames have no order with others.
func (b *bulk) send(f *bulkFrame) error {
	if chaos := b.peer.link.cfg.Chaos; chaos != nil {
		switch chaos(b.peer.id.Node, wire.Bulk, f.kind) {
		case Drop:
			b.lose()
			f.body.release(nil)
			return nil
		case Duplicate:
			f.written = nil
			release := f.body.releaseOfTwo()
			if err := b.push(f); err != nil {
				return err
			}
			if err := b.push(f); err != nil {
				release(err) // the one that is queued is now the last to need it
			}
			return nil
		}
	}
	return b.push(f)
}

func (b *bulk) push(f *bulkFrame) error {
	p := b.peer
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusal
	}
	waits := &b.bytes[f.account()]
	if n := *waits + headerSize + f.size; n > p.link.cfg.BulkQueue && *waits > 0 {
		b.mu.Unlock()
		return fmt.Errorf("send bulk to %s: %w: %d bytes wait for it", p, raysys.ErrOverloaded, n)
	}
	b.queue.push(f)
	b.frames++
	*waits += headerSize + f.size
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
	return b.bytes[0] + b.bytes[1]
}

// end stops reading and writing. The connection stays until the other side has had its last words on the express one:
// seeing this one close first, it would take that for a death.
func (b *bulk) end() {
	b.mu.Lock()
	b.ended = true
	if b.conn != nil {
		b.conn.SetDeadline(longAgo)
	}
	unwritten := b.conn == nil
	b.mu.Unlock()
	b.cond.Broadcast()
	if unwritten { // there is no writer, and none comes any more
		b.drain()
	}
}

// drain releases the frames that will not be written.
func (b *bulk) drain() {
	b.mu.Lock()
	left := b.queue
	b.queue, b.bytes = bulkQueue{}, [2]int{}
	b.mu.Unlock()
	if left.n == 0 {
		return
	}
	b.peer.mu.Lock()
	err := b.peer.refusal
	b.peer.mu.Unlock()
	for left.n > 0 {
		var f bulkFrame
		left.pop(&f)
		f.body.release(err)
	}
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
