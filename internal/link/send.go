package link

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// Send queues a frame; payload may be used again when it returns. The writer is woken and takes all that waits, so a
// burst of frames costs one write; Flush does it on the caller's goroutine.
//
// It fails with raysys.ErrNotDelivered when the peer is down, raysys.ErrTooLarge above MaxFrame, and
// raysys.ErrOverloaded when too many requests wait. When control or replies pass their bound the session ends with
// ErrStuck: they have no retry.
func (p *Peer) Send(class wire.Class, kind wire.Kind, payload []byte) error {
	if class >= classes || kind < wire.FirstKind {
		return fmt.Errorf("send to %s: kind %d in class %s is not for users", p, kind, class)
	}
	if p.link.cfg.Chaos != nil {
		return p.chaos(class, kind, payload)
	}
	return p.send(class, kind, payload)
}

// SendItem is Send for one item of a frame that is a list: items of one kind that follow each other while the frame waits
// to be written share it, each behind its length as a varint. The errors are those of Send.
func (p *Peer) SendItem(class wire.Class, kind wire.Kind, item []byte) error {
	if class >= classes || kind < wire.FirstKind {
		return fmt.Errorf("send to %s: kind %d in class %s is not for users", p, kind, class)
	}
	if p.link.cfg.Chaos != nil {
		return p.chaos(class, kind, append(binary.AppendUvarint(nil, uint64(len(item))), item...))
	}
	return p.queue(class, kind, item, true)
}

func (p *Peer) send(class wire.Class, kind wire.Kind, payload []byte) error {
	return p.queue(class, kind, payload, false)
}

func (p *Peer) queue(class wire.Class, kind wire.Kind, payload []byte, item bool) error {
	if len(payload) > p.maxFrame {
		return fmt.Errorf("send to %s: %w: a frame of %d bytes, the limit is %d", p, raysys.ErrTooLarge, len(payload), p.maxFrame)
	}
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return p.refusal
	}
	q := &p.out[class]
	if q.bytes+headerSize+len(payload) > q.bound && !q.empty() {
		p.mu.Unlock()
		if class == wire.Requests {
			return fmt.Errorf("send to %s: %w: %d bytes of requests wait for it", p, raysys.ErrOverloaded, q.bound)
		}
		err := fmt.Errorf("%w: %d bytes of %s wait for %s", ErrStuck, q.bound, class, p)
		p.end(err, "")
		return fmt.Errorf("send to %s: %w: %w", p, raysys.ErrNotDelivered, err)
	}
	if item {
		q.pushItem(p, class, kind, payload)
	} else {
		q.push(p, class, kind, payload)
	}
	if q.bytes >= flushBytes && !p.writing && p.try != nil && !p.reading.Load() {
		p.flushLocked() // sooner than the writer could: the peer works on these frames meanwhile
		return nil
	}
	if q.credit <= 0 || p.reading.Load() || p.corks.Load() != 0 {
		p.mu.Unlock()
		return nil
	}
	p.rouseLocked()
	return nil
}

// flushBytes is how much of a class is queued at most before the sender writes it itself, while no other goroutine
// writes.
const flushBytes = 8 * kib

// Flush writes the queued frames on this goroutine, as far as the connection takes them without waiting. If another
// goroutine is writing, that one takes them along. It is for those about to wait for an answer.
func (p *Peer) Flush() {
	p.mu.Lock()
	p.flushLocked()
}

// flushLocked is Flush with mu held; it lets go of it.
func (p *Peer) flushLocked() {
	if p.down || p.writing || p.torn != nil || !p.ready() {
		p.mu.Unlock()
		return
	}
	if p.try != nil {
		if err := p.round(false); err != nil {
			p.tear(err)
		}
	}
	if !p.down && !p.ready() {
		p.mu.Unlock()
		return
	}
	p.rouseLocked()
}

// Cork announces an Uncork of the caller in a moment. Until then Send, by any goroutine, does not wake the writer,
// which would wake only to find its work done. No long work may be done in between. Corks count.
func (p *Peer) Cork() { p.corks.Add(1) }

// Uncork takes back one Cork. The queued frames are written as by Flush, or with flush unset as after Send.
func (p *Peer) Uncork(flush bool) {
	p.mu.Lock()
	p.corks.Add(-1)
	switch {
	case flush:
		p.flushLocked()
	case !p.writing && p.ready() && !p.reading.Load(): // also under the cork of another, whose thread may have to wait for a processor
		p.rouseLocked()
	default:
		p.mu.Unlock()
	}
}

// rouseLocked wakes the writer if it sleeps. It lets go of mu, which the caller holds.
func (p *Peer) rouseLocked() {
	wake := p.sleeping
	p.sleeping = false
	p.mu.Unlock()
	if wake {
		p.cond.Signal()
	}
}

// poke wakes the writer, with mu held, because something is owed that no Send announced.
func (p *Peer) poke() {
	if p.sleeping {
		p.sleeping = false
		p.cond.Signal()
	}
}

// owed is what the link itself has to say. It is kept as facts and not as frames, so that it is bounded however often
// the other side asks.
type owed struct {
	ping, pong bool    // the first with how many frames were sent
	echo       [8]byte // of the pong
	bulk       bool    // the other side is to open the bulk connection
	credit     [classes]bool
	any        bool // one of them
}

// write is the peer's writer. It ends when the session is over, after the other side has been told.
func (p *Peer) write() {
	defer p.link.running.Done()
	defer close(p.wrote)
	p.mu.Lock()
	for !p.down {
		if p.writing || p.torn != nil || !p.ready() {
			p.sleeping = true
			p.cond.Wait()
			p.sleeping = false
			continue
		}
		if err := p.round(true); err != nil {
			p.tear(err)
		}
	}
	for p.writing {
		p.cond.Wait()
	}
	bye := p.bye
	if bye != "" {
		p.farewell(bye)
	}
	p.out = [classes]outQueue{}
	p.held, p.free, p.scratch, p.own, p.pieces, p.rest, p.taken = [classes][]byte{}, nil, nil, nil, nil, nil, nil
	p.mu.Unlock()
	<-p.readDone
	if bye != "" {
		linger(p.conn, p.link.cfg.Linger)
	}
	p.conn.Close()
	p.bulk.close()
}

// lastWords is how long the reader looks for them on a connection that takes nothing any more.
const lastWords = 100 * time.Millisecond

// tear notes that a write failed, with mu held. The reader ends the session: the other side may have said why it went,
// and on a connection that is gone a read fails at once too.
func (p *Peer) tear(err error) {
	if p.torn == nil && !p.down {
		p.torn = brokenError(err)
		p.conn.SetReadDeadline(time.Now().Add(lastWords))
	}
}

// farewell writes the queued frames and the reason, with mu held. Its deadline was set when the session ended.
func (p *Peer) farewell(bye string) {
	if len(bye) > maxText {
		bye = bye[:maxText]
	}
	for p.ready() {
		if p.torn != nil || p.round(true) != nil {
			return
		}
	}
	frame := append(appendHeader(nil, len(bye), kindBye, wire.Control), bye...)
	p.mu.Unlock()
	p.conn.Write(frame)
	p.mu.Lock()
}

// ready reports whether something may be written now.
func (p *Peer) ready() bool {
	return len(p.rest) > 0 || p.owed.any || p.out[wire.Control].ready() || p.out[wire.Replies].ready() || p.out[wire.Requests].ready()
}

// round writes what may go now; with block unset only as far as the connection takes it at once, and the rest is first
// in the next round. mu is held when it is called and when it returns, and p.writing keeps others out in between.
func (p *Peer) round(block bool) error {
	if len(p.rest) == 0 {
		p.gather()
	}
	p.writing = true
	p.mu.Unlock()
	var err error
	switch {
	case !block:
		err = p.tryRest()
	case len(p.rest) == 1:
		_, err = p.conn.Write(p.rest[0])
		p.rest = p.rest[1:]
	default:
		_, err = p.rest.WriteTo(p.conn)
	}
	p.mu.Lock()
	p.writing = false
	if p.down {
		p.cond.Broadcast() // the writer waits to say farewell
	}
	if len(p.rest) == 0 {
		for i, c := range p.taken {
			p.recycle(c)
			p.taken[i] = nil
		}
		p.taken = p.taken[:0]
	}
	return err
}

func (p *Peer) tryRest() error {
	for len(p.rest) > 0 {
		n, err := p.try.TryWrite(p.rest[0])
		if err != nil {
			return err
		}
		if n < len(p.rest[0]) {
			p.rest[0] = p.rest[0][n:]
			return nil
		}
		p.rest[0] = nil
		p.rest = p.rest[1:]
	}
	return nil
}

// gather moves what may go now into rest, in the order of the classes.
func (p *Peer) gather() {
	p.pieces = p.pieces[:0]
	total := 0
	if p.owed.any {
		p.own = p.settle(p.own[:0])
		if len(p.own) > 0 {
			p.pieces = append(p.pieces, p.own)
			total = len(p.own)
			p.counts.sent(wire.Control, 0, total)
		}
	}
	for c := range p.out {
		q := &p.out[c]
		for bytes := 0; q.ready() && (c == int(wire.Control) || bytes < roundBytes); {
			k := q.pop()
			bytes += len(k.buf)
			p.counts.sent(wire.Class(c), k.frames, len(k.buf))
			p.taken = append(p.taken, k)
			p.pieces = append(p.pieces, k.buf)
		}
	}
	for _, c := range p.taken {
		total += len(c.buf)
	}
	if len(p.pieces) > 1 && total <= joinBytes {
		p.scratch = p.scratch[:0]
		for _, piece := range p.pieces {
			p.scratch = append(p.scratch, piece...)
		}
		p.pieces = append(p.pieces[:0], p.scratch)
	}
	p.rest = p.pieces
}

// settle appends the frames that are owed.
func (p *Peer) settle(dst []byte) []byte {
	o := &p.owed
	for c := range o.credit {
		w := &p.in[c]
		if !o.credit[c] || w.due == 0 {
			continue
		}
		dst = appendHeader(dst, 5, kindCredit, wire.Control)
		dst = append(dst, byte(c))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(w.due))
		w.allowed += w.due
		w.due = 0
	}
	if o.pong {
		dst = append(appendHeader(dst, len(o.echo), kindPong, wire.Control), o.echo[:]...)
	}
	if o.ping {
		dst = appendHeader(dst, 8, kindPing, wire.Control)
		dst = binary.LittleEndian.AppendUint64(dst, p.pings.send(p.link.base))
		dst = p.appendCounts(dst)
	}
	if o.bulk {
		dst = appendHeader(dst, 0, kindBulkWanted, wire.Control)
	}
	*o = owed{}
	return dst
}

// chunk is a piece of a class's queue: whole frames, so that the writer may stop between any two.
type chunk struct {
	buf    []byte
	frames int
}

const (
	chunkSize = 64 * kib
	// keptChunks is what a busy peer uses again: some being written, some being filled.
	keptChunks = 8
	// roundBytes is how much of replies, and of requests, one write takes: a control frame waits behind no more.
	roundBytes = 256 * kib
	// joinBytes is up to where copying beats a vector of pieces.
	joinBytes = 16 * kib
)

// outQueue is what waits in one class, guarded by the peer's mu.
type outQueue struct {
	chunks []*chunk
	first  int   // of chunks that are still here
	bytes  int   // waiting
	bound  int   // of bytes
	credit int64 // bytes that the other side takes; a chunk may overdraw it

	list *chunk    // the last chunk, while its last frame is a list that may grow
	kind wire.Kind // of that frame
	at   int       // where its header is
}

func (q *outQueue) empty() bool { return q.first == len(q.chunks) }

// ready reports whether something may go now.
func (q *outQueue) ready() bool { return q.credit > 0 && q.first < len(q.chunks) }

// push appends a frame.
func (q *outQueue) push(p *Peer, class wire.Class, kind wire.Kind, payload []byte) {
	n := headerSize + len(payload)
	c := q.room(p, n)
	c.buf = append(appendHeader(c.buf, len(payload), kind, class), payload...)
	c.frames++
	q.bytes += n
	q.list = nil
}

// listBytes is how long a list may grow: what a reader handles at once.
const listBytes = 16 * kib

// pushItem appends an item to the list of its kind at the end of the queue, or begins one.
func (q *outQueue) pushItem(p *Peer, class wire.Class, kind wire.Kind, item []byte) {
	n := itemSize(item)
	c := q.list
	if c == nil || q.kind != kind || len(c.buf)+n > cap(c.buf) || len(c.buf)-q.at > listBytes {
		c = q.room(p, headerSize+n)
		q.list, q.kind, q.at = c, kind, len(c.buf)
		c.buf = appendHeader(c.buf, 0, kind, class)
		c.frames++
		q.bytes += headerSize
	}
	c.buf = append(binary.AppendUvarint(c.buf, uint64(len(item))), item...)
	binary.LittleEndian.PutUint32(c.buf[q.at:], uint32(len(c.buf)-q.at-headerSize))
	q.bytes += n
}

// itemSize is what an item takes in a list.
func itemSize(item []byte) int {
	n := 1 + len(item)
	for l := len(item); l >= 1<<7; l >>= 7 {
		n++
	}
	return n
}

// room returns the last chunk if it has room for n more bytes, or a new one.
func (q *outQueue) room(p *Peer, n int) (c *chunk) {
	if last := len(q.chunks) - 1; last >= q.first && cap(q.chunks[last].buf)-len(q.chunks[last].buf) >= n {
		c = q.chunks[last]
	} else {
		c = p.newChunk(n)
		if q.first > 0 && len(q.chunks) == cap(q.chunks) { // make room in place rather than grow for ever
			q.chunks = q.chunks[:copy(q.chunks, q.chunks[q.first:])]
			q.first = 0
		}
		q.chunks = append(q.chunks, c)
	}
	return c
}

// pop takes the oldest chunk.
func (q *outQueue) pop() *chunk {
	c := q.chunks[q.first]
	q.chunks[q.first] = nil
	q.first++
	if q.first == len(q.chunks) {
		q.chunks, q.first = q.chunks[:0], 0
	}
	if q.list == c {
		q.list = nil
	}
	q.bytes -= len(c.buf)
	q.credit -= int64(len(c.buf))
	return c
}

func (p *Peer) newChunk(n int) *chunk {
	if n > chunkSize {
		return &chunk{buf: make([]byte, 0, n)}
	}
	if last := len(p.free) - 1; last >= 0 {
		c := p.free[last]
		p.free = p.free[:last]
		return c
	}
	return &chunk{buf: make([]byte, 0, chunkSize)}
}

func (p *Peer) recycle(c *chunk) {
	if cap(c.buf) == chunkSize && len(p.free) < keptChunks {
		c.buf, c.frames = c.buf[:0], 0
		p.free = append(p.free, c)
	}
}
