package link

import (
	"encoding/binary"
	"time"

	"github.com/raysys/raysys/internal/wire"
)

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
		dst = binary.LittleEndian.AppendUint64(dst, uint64(time.Since(p.link.base)))
		dst = p.appendCounts(dst)
	}
	if o.bulk {
		dst = appendHeader(dst, 0, kindBulkWanted, wire.Control)
	}
	*o = owed{}
	return dst
}
