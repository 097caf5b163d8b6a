package link

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys/internal/wire"
)

// A byte stream loses no frame while it lives, and what lies above rests on that: a request has its answer, or its peer
// goes down. So a frame that is lost all the same (a fault of a sender, or Config.Chaos) must not go unnoticed. Beside
// each ping a node says how many frames it has sent before; the receiver compares. It costs nothing per frame.

// countsSize is the payload of kindCounts on the express connection: a number for each of its classes. On the bulk
// connection it is one number.
const countsSize = 8 * classes

// appendCounts appends how many frames were written so far. mu is held.
func (p *Peer) appendCounts(dst []byte) []byte {
	dst = appendHeader(dst, countsSize, kindCounts, wire.Control)
	for c := range wire.Class(classes) {
		dst = binary.LittleEndian.AppendUint64(dst, p.counts.out[c].frames.Load())
	}
	return dst
}

// compare takes what appendCounts says. seen is what this pass of the reader brought before it.
func (p *Peer) compare(seen *batch, payload []byte) error {
	for c := range wire.Class(classes) {
		sent := binary.LittleEndian.Uint64(payload[8*c:])
		if err := p.missing(c, sent, p.counts.in[c].frames.Load()+uint64(seen.frames[c])); err != nil {
			return err
		}
	}
	return nil
}

// missing tells the user of frames that were found lost since it was called last.
func (p *Peer) missing(class wire.Class, sent, came uint64) error {
	if sent < came {
		return fmt.Errorf("%w: %d frames of %s came, and the peer says it has sent %d", ErrCorrupt, came, class, sent)
	}
	lost := sent - came
	if lost <= p.missed[class] {
		return nil
	}
	n := lost - p.missed[class]
	p.missed[class] = lost
	if p.link.cfg.Lost != nil {
		p.link.cfg.Lost(p, class, n)
	}
	return nil
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

func bulkCount(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

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

// counted reads kindCounts on the bulk connection.
func (r *bulkReader) counted(h header) error {
	if h.length != 8 {
		return fmt.Errorf("%w: a frame of kind %d has %d bytes", ErrCorrupt, h.kind, h.length)
	}
	var payload [8]byte
	if _, err := r.fill(payload[:]); err != nil {
		return brokenError(err)
	}
	p := r.bulk.peer
	return p.missing(wire.Bulk, binary.LittleEndian.Uint64(payload[:]), p.counts.in[wire.Bulk].frames.Load())
}
