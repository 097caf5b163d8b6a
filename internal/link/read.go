package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/raysys/raysys/internal/wire"
)

const (
	readSize = 64 * kib
	// keptRead is up to which size a buffer that a large frame made grow is kept.
	keptRead = 256 * kib
)

// inWindow is what one class of the other side may send, guarded by the peer's mu.
type inWindow struct {
	size    int64
	allowed int64 // bytes granted and not used yet
	due     int64 // bytes handled and not granted again yet
}

// batch counts what one pass over the read buffer brought.
type batch struct {
	frames  [classes]int
	bytes   [classes]int // that take credit
	own     int          // bytes that do not
	unknown int
	kind    wire.Kind // of the frame being handled
}

// read hands frames to their handlers until it is over. It returns why; nil when the session was ended otherwise.
func (p *Peer) read() error {
	buf := make([]byte, readSize)
	from, to := 0, 0 // bytes that are read and not handled
	limit := p.link.cfg.MaxFrame
	for !p.over.Load() {
		n, err := p.conn.Read(buf[to:])
		if n > 0 {
			p.heard.Store(p.link.now())
			to += n
			taken, err := p.dispatch(buf[from:to], limit)
			if err != nil {
				return err
			}
			from += taken
		}
		if err != nil {
			return brokenError(err)
		}
		buf, from, to = arrange(buf, from, to)
	}
	return nil
}

// arrange makes room behind what has not been handled: for the whole frame, once its header is there.
func arrange(buf []byte, from, to int) ([]byte, int, int) {
	left := to - from
	if left == 0 {
		if len(buf) > keptRead {
			buf = make([]byte, readSize)
		}
		return buf, 0, 0
	}
	need := readSize / 4
	if left >= headerSize {
		need = headerSize + readHeader(buf[from:]).length
	}
	switch {
	case need > len(buf):
		bigger := make([]byte, need+readSize/4) // dispatch has checked the header
		copy(bigger, buf[from:to])
		return bigger, 0, left
	case from+need > len(buf) || len(buf)-to < readSize/4:
		copy(buf, buf[from:to])
		return buf, 0, left
	}
	return buf, from, to
}

// dispatch handles the whole frames in b and returns how many bytes they took. Handlers that send while it runs need
// not wake the writer: what they queue is written at the end.
func (p *Peer) dispatch(b []byte, limit int) (taken int, err error) {
	var seen batch
	defer func() {
		if v := recover(); v != nil {
			if p.link.cfg.Panicked != nil {
				p.link.cfg.Panicked(p, seen.kind, v, debug.Stack())
			}
			err = fmt.Errorf("%w on a frame of kind %d: %v", ErrHandler, seen.kind, v)
		}
	}()
	p.reading.Store(true)
	taken, err = split(b, limit, func(h header, payload []byte) error {
		if p.over.Load() {
			return errOver
		}
		seen.kind = h.kind
		if h.kind < wire.FirstKind {
			return p.ownFrame(&seen, h, payload)
		}
		seen.frames[h.class]++
		seen.bytes[h.class] += headerSize + len(payload)
		if f := p.link.handlers[h.kind]; f != nil {
			f(p, h.class, payload)
		} else {
			seen.unknown++
		}
		return nil
	})
	if err != nil {
		return taken, err
	}
	return taken, p.account(&seen)
}

// errOver stops a pass over the buffer when the session has ended meanwhile.
var errOver = errors.New("session over")

// account counts the frames received, and writes the control frames that are due and the frames that handlers sent.
func (p *Peer) account(seen *batch) error {
	var err error
	p.mu.Lock()
	p.reading.Store(false)
	for c := range seen.bytes {
		n := int64(seen.bytes[c])
		if n == 0 {
			continue
		}
		p.counts.received(wire.Class(c), seen.frames[c], seen.bytes[c])
		w := &p.in[c]
		w.allowed -= n
		w.due += n
		// One chunk may overdraw: that is how much a sender looks at at once.
		if w.allowed < -int64(max(chunkSize, headerSize+p.link.cfg.MaxFrame)) {
			err = fmt.Errorf("%w: more %s than credits", ErrCorrupt, wire.Class(c))
		}
		p.grant(wire.Class(c), w.size/4)
	}
	if seen.own > 0 {
		p.counts.received(wire.Control, 0, seen.own)
	}
	if seen.frames[wire.Replies]+seen.frames[wire.Requests] > 0 {
		p.link.calls.Store(p.heard.Load()) // when this pass began: a look at the clock is one in a hundred of a call
	}
	if seen.unknown > 0 {
		p.counts.unknown.Add(uint64(seen.unknown))
	}
	if err != nil {
		p.mu.Unlock()
		return err
	}
	p.flushLocked()
	return nil
}

// grant owes the other side credits once enough are due. mu is held.
func (p *Peer) grant(class wire.Class, atLeast int64) {
	w := &p.in[class]
	if w.due > 0 && w.due >= atLeast {
		p.owed.credit[class], p.owed.any = true, true
	}
}

// ownFrame handles the link's own kinds; later versions may have more of them.
func (p *Peer) ownFrame(seen *batch, h header, payload []byte) error {
	if h.kind >= firstCredited {
		seen.frames[h.class]++
		seen.bytes[h.class] += headerSize + len(payload)
		if known, err := p.link.routes.frame(p, h.kind, payload); known || err != nil {
			return err
		}
		seen.unknown++
		return nil
	}
	seen.own += headerSize + len(payload)
	wrong := func() error {
		return fmt.Errorf("%w: a frame of kind %d has %d bytes", ErrCorrupt, h.kind, len(payload))
	}
	switch h.kind {
	case kindPing:
		if len(payload) != 8 {
			return wrong()
		}
		if p.withheld.Load() { // read after heard was stored, see Withhold
			return nil
		}
		p.mu.Lock()
		p.owed.pong, p.owed.any = true, true
		copy(p.owed.echo[:], payload)
		p.mu.Unlock()
	case kindPong:
		if len(payload) != 8 {
			return wrong()
		}
		if trip, known := p.pong(p.link.base, payload); known {
			p.trip.Store(int64(max(0, trip)))
		}
	case kindCredit:
		if len(payload) != 5 || payload[0] >= classes {
			return wrong()
		}
		p.mu.Lock()
		q := &p.out[payload[0]]
		q.credit = min(q.credit+int64(binary.LittleEndian.Uint32(payload[1:])), 1<<40)
		p.mu.Unlock()
	case kindBye:
		return fmt.Errorf("%w: %s", ErrLeft, text(payload))
	case kindCounts:
		if len(payload) != countsSize {
			return wrong()
		}
		return p.compare(seen, payload)
	case kindBulkWanted:
		p.bulk.wanted()
	default:
		seen.unknown++
	}
	return nil
}

// text makes what another program wrote fit for a message.
func text(b []byte) string {
	if len(b) > maxText {
		b = b[:maxText]
	}
	return strings.ToValidUTF8(string(b), "?")
}

// isViolation reports whether a session ends for something that the other side should learn of.
func isViolation(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrHandler) }

// A byte stream loses no frame while it lives, and what lies above rests on that: a request has its answer, or its peer
// goes down. So a frame that is lost all the same (a fault of a sender, or Config.Chaos) must not go unnoticed. Beside
// each ping a node says how many frames it has sent before; the receiver compares. It costs nothing per frame.

// countsSize is the payload of kindCounts on the express connection: a number for each of its classes. On the bulk
// connection it is one number.
const countsSize = 8 * classes

func bulkCount(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

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
