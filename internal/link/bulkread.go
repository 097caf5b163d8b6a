package link

import (
	"fmt"
	"net"
	"runtime/debug"

	"github.com/raysys/raysys/internal/wire"
)

// bulkReader takes the frames of one bulk connection apart. ahead has bytes that were read together with a header:
// the start of the payload, which is copied; the rest is read into its final place.
type bulkReader struct {
	bulk     *bulk
	conn     net.Conn
	ahead    [512]byte
	from, to int
	scratch  []byte // for bytes that are skipped
	turn     polite
	kind     wire.Kind // of the frame being read
}

// frame reads and hands out one frame.
func (r *bulkReader) frame() (err error) {
	p := r.bulk.peer
	if err := r.need(headerSize); err != nil {
		return err
	}
	h := readHeader(r.ahead[r.from:])
	if err := h.check(p.link.cfg.MaxBulk, true); err != nil {
		return err
	}
	r.from += headerSize
	r.kind = h.kind
	if h.kind == kindCounts {
		return r.counted(h)
	}
	defer func() {
		if v := recover(); v != nil {
			r.bulk.forget()
			if p.link.cfg.Panicked != nil {
				p.link.cfg.Panicked(p, r.kind, v, debug.Stack())
			}
			err = fmt.Errorf("%w on a frame of kind %d: %v", ErrHandler, r.kind, v)
		}
	}()
	if h.flags&flagBody != 0 {
		return r.apart(h)
	}
	f := p.link.handlers[h.kind]
	if f == nil {
		if err := r.skip(h.length); err != nil {
			return err
		}
		p.counts.received(wire.Bulk, 1, headerSize+h.length)
		p.counts.unknown.Add(1)
		return nil
	}
	payload := wire.TakeFrame(h.length)
	defer wire.GiveFrame(payload)
	if _, err := r.fill(payload); err != nil {
		return brokenError(err)
	}
	p.counts.received(wire.Bulk, 1, headerSize+h.length)
	if !p.over.Load() {
		f(p, wire.Bulk, payload)
	}
	return nil
}

// apart reads a frame whose body goes to where the sink says.
func (r *bulkReader) apart(h header) error {
	p := r.bulk.peer
	if h.length < 1 {
		return fmt.Errorf("%w: a frame of kind %d has a body and no head", ErrCorrupt, h.kind)
	}
	if err := r.need(1); err != nil {
		return err
	}
	n := int(r.ahead[r.from])
	size := h.length - 1 - n
	if size < 0 {
		return fmt.Errorf("%w: a frame of kind %d has a head of %d bytes in %d", ErrCorrupt, h.kind, n, h.length)
	}
	if err := r.need(1 + n); err != nil {
		return err
	}
	head := r.ahead[r.from+1 : r.from+1+n : r.from+1+n] // stays until the next need
	r.from += 1 + n
	sink := p.link.cfg.Sinks[h.kind]
	var l Landing
	if sink == nil {
		p.counts.unknown.Add(1)
	} else if !p.over.Load() {
		l = r.bulk.place(sink, head, size)
	}
	if l == nil {
		if err := r.skip(size); err != nil {
			return err
		}
		p.counts.received(wire.Bulk, 1, headerSize+h.length)
		return nil
	}
	return r.land(l, h, size)
}

// land reads a body into the memory of l.
func (r *bulkReader) land(l Landing, h header, size int) error {
	p := r.bulk.peer
	into := l.Memory()
	if len(into) != size {
		err := fmt.Errorf("%w: the sink of kind %d gave %d bytes for a body of %d", ErrHandler, h.kind, len(into), size)
		r.bulk.settle(l, err)
		return err
	}
	n, err := r.fill(into)
	switch {
	case err == nil:
		p.counts.received(wire.Bulk, 1, headerSize+h.length)
		r.bulk.settle(l, nil)
		return nil
	case r.bulk.wasKicked():
		r.bulk.settle(l, ErrAbandoned)
		if err := r.skip(size - n); err != nil {
			return err
		}
		p.counts.received(wire.Bulk, 1, headerSize+h.length)
		return nil
	}
	err = brokenError(err)
	if cause := p.Err(); cause != nil { // the session ended first, and the read because of it
		err = cause
	}
	r.bulk.settle(l, err)
	return err
}

// need makes at least n bytes lie in ahead, which holds any header and head.
func (r *bulkReader) need(n int) error {
	if r.to-r.from >= n {
		return nil
	}
	r.to = copy(r.ahead[:], r.ahead[r.from:r.to])
	r.from = 0
	for r.to < n {
		m, err := r.conn.Read(r.ahead[r.to:])
		r.to += m
		if m > 0 {
			r.heard()
		}
		if err != nil && r.to < n {
			return brokenError(err)
		}
	}
	return nil
}

// fill reads all of dst, in cuts; n is how far it came.
func (r *bulkReader) fill(dst []byte) (n int, err error) {
	n = copy(dst, r.ahead[r.from:r.to])
	r.from += n
	for n < len(dst) {
		m, err := r.conn.Read(dst[n:min(len(dst), n+r.turn.cut())])
		n += m
		if m > 0 {
			r.heard()
		}
		if err != nil && n < len(dst) {
			return n, err
		}
		r.turn.offer()
	}
	return n, nil
}

// skip reads and drops n bytes.
func (r *bulkReader) skip(n int) error {
	if r.scratch == nil && n > 0 {
		r.scratch = make([]byte, 64*kib)
	}
	for n > 0 {
		m, err := r.fill(r.scratch[:min(n, len(r.scratch))])
		if err != nil {
			return brokenError(err)
		}
		n -= m
	}
	return nil
}

func (r *bulkReader) heard() { r.bulk.peer.heard.Store(r.bulk.peer.link.now()) }
