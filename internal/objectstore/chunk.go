package objectstore

import (
	"os"
	"sync"
)

// Chunk is the bytes of one chunk, lent until Release: pieces in memory, or a section of a file that sendfile can
// send. Bytes from a file were not verified here; the receiver verifies them.
type Chunk struct {
	Pieces [][]byte
	// File, unless nil, holds the bytes instead: Size of them at Offset. It is shared: it must not be seeked or
	// closed.
	File   *os.File
	Offset int64
	Size   int

	sum  uint32
	of   *Object // unless nil, its sum is not known yet
	i    int
	back *lent
}

type lent struct {
	once sync.Once
	give func()
}

// Release ends the use of the chunk. Release again does nothing.
func (c *Chunk) Release() {
	if c.back != nil {
		c.back.once.Do(c.back.give)
	}
}

// Sum returns the chunk's CRC-32C. It may have to be computed: after a call right before the send, the bytes are in
// the processor's cache. It is an error if the bytes are not those of an earlier sum.
func (c *Chunk) Sum() (uint32, error) {
	o := c.of
	if o == nil {
		return c.sum, nil
	}
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if !o.sums.known[c.i] {
		s.unlock()
		sum := sumOf(c.Pieces)
		s.mu.Lock()
		if !o.sums.note(c.i, sum) {
			return 0, changed(o.id)
		}
	}
	c.sum, c.of = o.sums.crc[c.i], nil
	return c.sum, nil
}

// chain is a list of objects, least recently used first, linked through the objects themselves: a million of them cost no
// further allocation. The store's mutex guards it.
type chain struct {
	root link
	len  int
}

// link is an object's place in a chain.
type link struct {
	prev, next *link
	in         *chain
	object     *Object
}

// push puts l at the end, as the most recently used, wherever it was.
func (c *chain) push(l *link) {
	l.remove()
	if c.root.next == nil {
		c.root.prev, c.root.next = &c.root, &c.root
	}
	last := c.root.prev
	l.prev, l.next, l.in = last, &c.root, c
	last.next, c.root.prev = l, l
	c.len++
}

func (l *link) remove() {
	if l.in == nil {
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	l.in.len--
	l.prev, l.next, l.in = nil, nil, nil
}

// first returns the least recently used object that ok accepts, nil when there is none.
func (c *chain) first(ok func(*Object) bool) *Object {
	if c.len == 0 {
		return nil
	}
	for l := c.root.next; l != &c.root; l = l.next {
		if ok(l.object) {
			return l.object
		}
	}
	return nil
}
