package link

import (
	"encoding/binary"

	"github.com/raysys/raysys/internal/wire"
)

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
