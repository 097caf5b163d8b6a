package link

import (
	"context"
	"errors"
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

// waitForHandlers returns when no handler runs any more.
func (b *bulk) waitForHandlers() { b.reader.Wait() }

func (b *bulk) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil {
		b.conn.Close()
	}
}

func (b *bulk) abandon(l Landing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.placing || b.landing == l { // a sink that runs may be about to return l
		if !b.placing && !b.kicked {
			b.kicked = true
			b.conn.SetReadDeadline(longAgo)
		}
		b.landed.Wait()
	}
}

// place asks the sink for a landing, whose memory is in use from then on.
func (b *bulk) place(sink Sink, head []byte, size int) (l Landing) {
	b.mu.Lock()
	b.placing = true
	b.mu.Unlock()
	defer func() { // also when the sink panics
		b.mu.Lock()
		b.placing, b.landing = false, l
		b.mu.Unlock()
		b.landed.Broadcast()
	}()
	return sink(b.peer, head, size)
}

// wasKicked reports whether a read ended because of Abandon, and not because the session did.
func (b *bulk) wasKicked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kicked && !b.ended
}

// forget cleans up after a Landing that panicked.
func (b *bulk) forget() {
	b.mu.Lock()
	b.landing = nil
	b.mu.Unlock()
	b.landed.Broadcast()
}

// settle calls Landed and wakes the goroutines that wait for the memory in Abandon.
func (b *bulk) settle(l Landing, err error) {
	defer func() { // also when Landed panics
		b.mu.Lock()
		if b.kicked {
			b.kicked = false
			if !b.ended { // else the deadline is that of the end
				b.conn.SetReadDeadline(never)
			}
		}
		b.landing = nil
		b.mu.Unlock()
		b.landed.Broadcast()
	}()
	l.Landed(err)
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
	if err := b.askPeer(ctx, conn); err != nil {
		conn.Close()
		return err
	}
	return b.attach(conn)
}

func (b *bulk) askPeer(ctx context.Context, conn net.Conn) error {
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

func (b *bulk) read() {
	defer b.reader.Done()
	b.mu.Lock() // attach sets conn before it lets go
	conn := b.conn
	b.mu.Unlock()
	if conn == nil {
		return
	}
	r := &bulkReader{bulk: b, conn: conn, turn: b.peer.link.polite()}
	for !b.peer.over.Load() {
		if err := r.frame(); err != nil {
			b.peer.fail(err)
			return
		}
	}
}

// write is the connection's writer. It ends when the session is over.
func (b *bulk) write() {
	b.mu.Lock() // attach sets conn before it lets go
	conn := b.conn
	b.mu.Unlock()
	if conn == nil {
		return
	}
	_, vector := conn.(*net.TCPConn)
	w := &bulkWriter{conn: conn, vector: vector, files: asFileSender(conn), turn: b.peer.link.polite()}
	for {
		var f bulkFrame
		b.mu.Lock()
		for b.queue.n == 0 && !b.ended {
			b.cond.Wait()
		}
		if b.ended {
			b.mu.Unlock()
			b.drain()
			return
		}
		b.queue.pop(&f)
		b.mu.Unlock()
		own := f.kind < wire.FirstKind
		if !own {
			b.peer.counts.sent(wire.Bulk, 1, headerSize+f.size)
		}
		unread, err := w.frame(&f)
		if !own {
			b.mu.Lock()
			b.bytes[f.account()] -= min(b.bytes[f.account()], headerSize+f.size) // end may have cleared it
			b.mu.Unlock()
		}
		if err != nil {
			err = brokenError(err)
			f.body.release(err)
			b.peer.fail(err)
			b.end() // the session may have failed before; what waits goes back in any case
			b.drain()
			return
		}
		f.body.release(unread)
		if f.written != nil {
			f.written(f.payload)
		}
	}
}

// sendCount queues the number of frames behind the frames that it counts, if it has changed since the last count.
func (b *bulk) sendCount() {
	b.mu.Lock()
	if b.frames == b.countedTo || b.conn == nil || b.ended {
		b.mu.Unlock()
		return
	}
	b.countedTo = b.frames
	count := bulkCount(b.frames)
	b.queue.push(&bulkFrame{kind: kindCounts, payload: count, size: len(count)})
	b.mu.Unlock()
	b.cond.Signal()
}

// lose counts a frame that Chaos dropped. The connection is opened as for one that is sent.
func (b *bulk) lose() {
	b.mu.Lock()
	b.frames++
	open := b.conn == nil && !b.opening && !b.ended
	b.opening = b.opening || open
	b.mu.Unlock()
	if open {
		b.begin()
	}
}

const (
	bulkTries = 3
	bulkPause = 50 * time.Millisecond // before the second try, and twice that before the third
)
