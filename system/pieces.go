package system

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/wire"
)

// pieceSize is how much of an object goes in one frame; pieceWindow how many pieces are on the way at a time.
const (
	pieceSize   = 1 << 20
	pieceWindow = 4
)

// pieces is the plain puller: it asks the node that holds the object for one piece after the other.
type pieces struct{ c *cluster }

// pulling is one object on its way here.
type pulling struct {
	at   *remoteSource
	done func([]byte, error)

	mu   sync.Mutex // guards the rest
	buf  []byte
	have map[uint64][]byte // pieces that came before one in front of them
	next uint64            // piece that is appended next
	ask  uint64            // piece that is asked for next
	over bool
}

// pull implements puller.
func (s pieces) pull(at *remoteSource, size int64, done func([]byte, error)) {
	s.begin(&pulling{at: at, done: done, have: map[uint64][]byte{}, buf: make([]byte, 0, min(max(size, 0), 64*pieceSize))})
}

// begin asks the owner, from the piece on that is missing.
func (s pieces) begin(q *pulling) {
	s.c.connect(q.at.owner, func(p *peer, err error) {
		if err != nil {
			q.end(q.at.lost(err))
			return
		}
		slot, ok := p.pulls.Put(q)
		if !ok {
			s.c.later(func() { s.begin(q) })
			return
		}
		q.mu.Lock()
		clear(q.have)
		q.ask = q.next + 1
		first := q.next
		q.mu.Unlock()
		p.askPiece(slot, q, first)
	})
}

func (q *pulling) end(err error) {
	q.mu.Lock()
	over, buf := q.over, q.buf
	q.over, q.buf = true, nil
	q.mu.Unlock()
	if !over {
		if err != nil {
			buf = nil
		}
		q.done(buf, err)
	}
}

// lost is called when the connection broke: the owner may live, and then goes on where it was.
func (q *pulling) lost(c *cluster) { pieces{c}.begin(q) }

// askPiece asks for one piece.
func (p *peer) askPiece(slot uint64, q *pulling, piece uint64) {
	frame := wire.AppendUvarint(nil, slot)
	frame = wire.AppendUvarint(wire.AppendUvarint(frame, q.at.number), piece)
	if err := p.Send(wire.Requests, wire.KindPull, frame); err != nil && !errors.Is(err, raysys.ErrNotDelivered) {
		if _, ok := p.pulls.Take(slot); ok {
			q.end(q.at.lost(err))
		}
		return
	}
	p.Flush()
}

// onPiece handles KindPiece.
func (p *peer) onPiece(frame []byte) error {
	r := wire.NewReader(frame)
	slot, i, count := r.Uvarint(), r.Uvarint(), r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	body := r.Rest()
	q, ok := p.pulls.Look(slot)
	if !ok {
		return nil
	}
	if i >= count || len(body) > pieceSize || i+1 < count && len(body) < pieceSize {
		return fmt.Errorf("%w: piece %d of %d has %d bytes", wire.ErrCorrupt, i, count, len(body))
	}
	var ask []uint64
	q.mu.Lock()
	if i >= q.next && i < q.ask {
		q.have[i] = append([]byte(nil), body...)
	}
	for b, ok := q.have[q.next]; ok; b, ok = q.have[q.next] {
		q.buf = append(q.buf, b...)
		delete(q.have, q.next)
		q.next++
	}
	for q.ask < count && q.ask < q.next+pieceWindow {
		ask = append(ask, q.ask)
		q.ask++
	}
	complete := q.next == count
	q.mu.Unlock()
	if complete {
		if _, ok := p.pulls.Take(slot); ok {
			q.end(nil)
		}
		return nil
	}
	for _, i := range ask {
		p.askPiece(slot, q, i)
	}
	return nil
}

// onNoPiece handles KindNoPiece.
func (p *peer) onNoPiece(frame []byte) error {
	r := wire.NewReader(frame)
	slot := r.Uvarint()
	err := wire.ReadError(&r)
	if r.Err() != nil {
		return r.Err()
	}
	if q, ok := p.pulls.Take(slot); ok {
		q.end(err)
	}
	return nil
}

// serving is an object that a peer pulls: its encoding is made once, for the first piece.
type serving struct {
	core    *raysys.Core
	once    sync.Once
	encoded []byte
	err     error
}

// onPull handles KindPull. The encoding may take a while, so it does not happen on the goroutine that reads frames.
func (p *peer) onPull(frame []byte) error {
	r := wire.NewReader(frame)
	slot, number, piece := r.Uvarint(), r.Uvarint(), r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	s := p.serve(slot, number)
	p.c.run(func() {
		s.once.Do(func() { s.encoded, s.err = encode(s.core) })
		count := uint64(max(1, (len(s.encoded)+pieceSize-1)/pieceSize))
		if s.err == nil && piece >= count {
			s.err = fmt.Errorf("%w: piece %d of %d was asked for", wire.ErrCorrupt, piece, count)
		}
		if s.err != nil || piece+1 >= count {
			p.served(slot)
		}
		if s.err != nil {
			_ = p.reply(wire.KindNoPiece, wire.AppendError(wire.AppendUvarint(nil, slot), s.err)) // a peer that is gone waits no more
			return
		}
		out := wire.AppendUvarint(wire.AppendUvarint(wire.AppendUvarint(nil, slot), piece), count)
		from := piece * pieceSize
		out = append(out, s.encoded[from:min(from+pieceSize, uint64(len(s.encoded)))]...)
		for errors.Is(p.SendLarge(wire.KindPiece, out), raysys.ErrOverloaded) {
			if !p.c.pause(time.Millisecond) {
				return
			}
		}
	})
	return nil
}

// serve returns what the peer pulls under slot.
func (p *peer) serve(slot, number uint64) *serving {
	p.serveMu.Lock()
	defer p.serveMu.Unlock()
	s := p.servings[slot]
	if s == nil {
		s = &serving{core: p.c.exports.get(number)}
		if p.servings == nil {
			p.servings = map[uint64]*serving{}
		}
		p.servings[slot] = s
	}
	return s
}

// served forgets an object whose last piece was asked for.
func (p *peer) served(slot uint64) {
	p.serveMu.Lock()
	defer p.serveMu.Unlock()
	delete(p.servings, slot)
}

// encode returns the encoding of a future's value.
func encode(c *raysys.Core) ([]byte, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: it is not held any more", raysys.ErrObjectLost)
	}
	v, err := c.Outcome()
	if err != nil {
		return nil, err
	}
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return nil, err
	}
	var refs []*raysys.Core
	return plan.Append(nil, value, &refs)
}
