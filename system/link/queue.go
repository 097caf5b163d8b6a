package link

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
}

func (q *outQueue) empty() bool { return q.first == len(q.chunks) }

// ready reports whether something may go now.
func (q *outQueue) ready() bool { return q.credit > 0 && q.first < len(q.chunks) }

// push appends a frame.
func (q *outQueue) push(p *Peer, class Class, kind Kind, payload []byte) {
	n := headerSize + len(payload)
	var c *chunk
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
	c.buf = append(appendHeader(c.buf, len(payload), kind, class), payload...)
	c.frames++
	q.bytes += n
}

// pop takes the oldest chunk.
func (q *outQueue) pop() *chunk {
	c := q.chunks[q.first]
	q.chunks[q.first] = nil
	q.first++
	if q.first == len(q.chunks) {
		q.chunks, q.first = q.chunks[:0], 0
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
