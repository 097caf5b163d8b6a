package objectstore

import (
	"context"
	"fmt"
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

// Chunk lends chunk i, to be sent. Of an object that is still being received it waits for the chunk.
func (o *Object) Chunk(ctx context.Context, i int) (Chunk, error) {
	s := o.store
	s.mu.Lock()
	defer s.unlock()
	if err := s.enter(ctx); err != nil {
		return Chunk{}, fmt.Errorf("chunk %d of object %s: %w", i, o.id, err)
	}
	defer s.busy.Done()
	for {
		if err := o.gone(); err != nil {
			return Chunk{}, err
		}
		if o.sums != nil && (i < 0 || i >= len(o.sums.crc)) {
			return Chunk{}, fmt.Errorf("object %s has %d chunks: there is no chunk %d", o.id, len(o.sums.crc), i)
		}
		switch {
		case o.in != nil:
			c, ok, err := o.in.lend(ctx, i)
			if ok || err != nil {
				return c, err
			}
		case o.parts() != nil:
			at, n := o.version.Section(i)
			c := Chunk{Pieces: section(o.parts(), at, n), Size: n, sum: o.sums.crc[i]}
			if !o.sums.known[i] {
				c.of, c.i = o, i
			}
			return o.lend(c), nil
		case o.file != nil:
			if c, err := o.fileChunk(ctx, o.file, o.file.body, i); err != errOtherForm {
				return c, err
			}
		default:
			if err := o.encoded(ctx); err != nil {
				return Chunk{}, err
			}
		}
	}
}

// lend counts the use of a chunk in memory.
func (o *Object) lend(c Chunk) Chunk {
	o.touch()
	o.use()
	c.back = &lent{give: o.unuse}
	return c
}

// fileChunk lends a section of a file; where the file system has no real files, its verified bytes.
func (o *Object) fileChunk(ctx context.Context, f *spillFile, body int64, i int) (Chunk, error) {
	s := o.store
	o.use()
	h, err := s.openFile(f)
	if err != nil {
		o.users--
		defer o.settle()
		return Chunk{}, o.broken(ctx, f, err)
	}
	o.touch()
	at, n := o.version.Section(i)
	c := Chunk{File: h.file.OS(), Offset: body + at, Size: n, sum: o.sums.crc[i]}
	c.back = &lent{give: func() {
		s.mu.Lock()
		s.closeFile(f, h)
		o.users--
		o.settle()
		s.unlock()
	}}
	if c.File != nil {
		return c, nil
	}
	s.unlock()
	buf := make([]byte, n)
	if err = readFull(h.file, buf, body+at); err == nil {
		err = o.version.verify(i, c.sum, buf)
	}
	if err != nil {
		c.Release()
	}
	s.mu.Lock()
	if err != nil {
		return Chunk{}, o.broken(ctx, f, err)
	}
	c.Pieces, c.Offset = [][]byte{buf}, 0
	return c, nil
}
