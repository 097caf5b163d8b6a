package link

import (
	"encoding/binary"
	"fmt"

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
