package stream

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/stream/internal/bus"
)

// target is one grain to which a pump delivers.
type target struct {
	p   *pump
	key string

	// The pump's mu guards the rest.
	busy  bool   // it has events that were not taken, in the queue or in the bus
	queue []item // the first is in flight; empty while the target fails, or waits for room
	held  load   // by the queue
	done  uint64 // the number of the last event that it took; 0 where that is not known
	// behind: events from next on are not in the queue: they are read again from the bus.
	behind bool
	next   uint64
	last   uint64 // the number of the last one that it left there
	left   int    // how many; fewer where that is not known
	single bool   // it reads the next one alone
	// While its handler fails, for the event with the number next:
	tries  int         // so far
	failed int         // those that count
	size   int         // of the event, in bytes
	alarm  *time.Timer // for another
}

// item is an event that waits, with what keeps it from having a grain.
type item struct {
	bus.Message
	load  load
	bad   error
	again bool      // it was left in the bus before
	at    time.Time // when it came here
}

// low is the number of the first event that was not taken.
func (t *target) low() uint64 {
	switch {
	case len(t.queue) > 0:
		return t.queue[0].Seq
	case t.behind:
		return t.next
	}
	return math.MaxUint64
}

// run delivers what the target has, until it has no more, or waits for room or for another attempt: no goroutine waits for those.
func (t *target) run() {
	p := t.p
	for p.ctx.Err() == nil {
		p.mu.Lock()
		switch {
		case len(t.queue) > 0:
			first := t.queue[0]
			p.mu.Unlock()
			if !t.deliver(first) {
				return
			}
			continue
		case t.behind && t.next <= t.last:
			p.ready = append(p.ready, t)
			p.start()
		default:
			t.busy, t.behind, t.queue, t.left = false, false, nil, 0
			p.busy--
			p.room.Broadcast()
		}
		p.mu.Unlock()
		return
	}
}

// errUnchecked: the server was away, so the events may be others that have the same numbers.
var errUnchecked = errors.New("the connection to NATS was made again, and it is not known yet whether its store is the same")

// refill reads some of the events that the target left in the bus. It has room for l.
func (t *target) refill(l load) {
	p := t.p
	p.mu.Lock()
	from, to, single := t.next, t.last, t.single
	p.mu.Unlock()
	f := bus.Filter{Partition: p.partition, Made: p.from.Made, Seen: bus.Mark{Seq: to}, Ahead: l.events}
	if p.s.to == nil {
		f.Key = &t.key
	}
	var batch []item
	var held load
	var next uint64
	add := func(m bus.Message, bad error) {
		batch = append(batch, item{Message: m, load: loadOf(&m), bad: bad, again: true, at: time.Now()})
		held = held.plus(loadOf(&m))
	}
	p.insist("the events of a grain that is behind cannot be read: it is tried again", func() error {
		batch, held, next = batch[:0], load{}, to+1
		b, err := p.n.ensure(p.ctx, p.s.d)
		if err != nil {
			return err
		}
		if single {
			m, err := b.Next(p.ctx, p.n.nameOf(p.s.d), f, from)
			switch gone := errors.Is(err, bus.ErrNoEvent); {
			case err != nil && !gone:
				p.n.missed(p.s.d, err)
				return err
			case p.n.connects() != p.checked.Load():
				return errUnchecked
			case p.s.to != nil && (gone || m.Seq != from): // what comes after it may be of other grains
				next = from + 1
			case !gone && m.Seq <= to:
				_, bad := p.s.target(&m)
				add(m, bad)
				next = m.Seq + 1
			}
			return nil
		}
		err = b.Read(p.ctx, p.n.nameOf(p.s.d), f, from, to, func(m bus.Message) bool {
			key, bad := p.s.target(&m)
			if bad != nil {
				key = ""
			}
			if key != t.key {
				return true
			}
			if !held.fits(loadOf(&m), load{l.events, l.bytes - largest}) {
				next = m.Seq
				return false
			}
			add(m, bad)
			return true
		})
		if p.n.missed(p.s.d, err); err == nil && p.n.connects() != p.checked.Load() {
			return errUnchecked
		}
		return err
	})
	gone := len(batch) == 0 || batch[0].Seq != from
	dropped := gone && t.tries > 0 && p.ctx.Err() == nil // of another target from need not be an event's; nobody else writes tries now
	if dropped {
		p.log().Warn("an event is dropped: its handler failed until Keep was over, or it was removed", "grain", p.grainOf(t.key), "seq", from, "attempts", t.tries)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(l, true)
	if p.ctx.Err() != nil {
		return
	}
	p.hold(held, true)
	t.queue, t.held, t.next = batch, held, next
	t.left = max(t.left-len(batch), 0)
	if dropped {
		p.stats.dropped++
	}
	if gone {
		t.recovered() // what it failed at is not there any more
	}
	p.start()
}

// deliver has the grain take the event, or parks it. It returns whether the target goes on: else it tries again later.
func (t *target) deliver(m item) bool {
	p, s := t.p, t.p.s
	if m.bad != nil {
		t.park(m.Message, m.bad)
		return true
	}
	p.mu.Lock()
	d := delivery{
		Subscription: s.name, Partition: p.partition, Made: p.from.Made, Key: m.Key, Seq: m.Seq, Prev: t.done, Time: m.Time.UnixNano(), Data: m.Data, Reason: m.Reason,
	}
	if d.Generation = p.generationOf(m.Seq); p.generationOf(t.done) != d.Generation {
		d.Prev = 0 // that is another number
	}
	p.mu.Unlock()
	o, err := s.send(p.ctx, t.key, d).Get(p.ctx)
	switch {
	case p.ctx.Err() != nil:
		return false
	case err == nil && o.Unreadable != "":
		t.park(m.Message, errors.New(o.Unreadable))
	case err == nil && o.Lost:
		t.rewind(o.At)
	case err == nil:
		t.noteTaken(m.Seq, o.Cursor)
	case !t.exhausted(err):
		t.later(m, err)
		return false
	case s.park:
		t.park(m.Message, err)
	default:
		p.log().Warn("an event is dropped", "grain", p.grainOf(t.key), "key", m.Key, "seq", m.Seq, "error", err)
		p.mu.Lock()
		p.stats.dropped++
		p.mu.Unlock()
		t.noteTaken(m.Seq, false)
	}
	return true
}

// exhausted counts a failure, and reports whether there is no other attempt.
func (t *target) exhausted(err error) bool {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	var handler *raysys.TaskError
	if errors.As(err, &handler) {
		t.failed++
	}
	return p.s.attempts > 0 && t.failed >= p.s.attempts
}

// later leaves the event, and those behind it, in the bus, and arranges another attempt.
func (t *target) later(m item, err error) {
	p := t.p
	if t.tries == 0 { // nobody else writes it now
		p.log().Warn("an event is not taken: it comes again", "grain", p.grainOf(t.key), "key", m.Key, "seq", m.Seq, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.leave(m.Seq)
	t.size = m.load.bytes
	pause := min(firstPause<<min(t.tries, 20), p.s.most)
	t.alarm = time.AfterFunc(pause/2+rand.N(pause/2+1), t.countAttempt)
	t.tries++
}

// countAttempt is for another attempt.
func (t *target) countAttempt() {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.ready = append(p.ready, t)
		p.start()
	}
}

// recovered notes that the event at which the handler failed is dealt with. p.mu is held.
func (t *target) recovered() { t.tries, t.failed, t.alarm = 0, 0, nil }

// leave leaves the events of the queue in the bus: those from next on are read again. p.mu is held.
func (t *target) leave(next uint64) {
	if !t.behind {
		t.behind, t.last = true, t.queue[len(t.queue)-1].Seq
	}
	t.next = next
	t.left += len(t.queue)
	for len(t.queue) > 0 {
		t.pop()
	}
	t.queue = nil
	t.p.start()
}

// noteTaken notes that the first event is dealt with: it was taken by the grain, whose cursor is there now, or by nobody.
func (t *target) noteTaken(seq uint64, byGrain bool) {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if byGrain {
		t.done = seq
	}
	p.stats.taken++
	t.recovered()
	t.pop()
	p.start()
}

// push puts an event behind the others. p.mu is held.
func (t *target) push(m item) {
	t.queue = append(t.queue, m)
	t.held = t.held.plus(m.load)
	t.p.hold(m.load, m.again)
}

// pop takes the first event out. p.mu is held.
func (t *target) pop() {
	first := &t.queue[0]
	t.held = t.held.minus(first.load)
	t.p.free(first.load, first.again)
	*first = item{}
	t.queue = t.queue[1:]
}

// rewind has the target read again what its grain has lost.
func (t *target) rewind(at uint64) {
	p := t.p
	p.log().Error("a grain has lost its State: it gets the events since again", "grain", p.grainOf(t.key), "had", t.done, "has", at)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.done = at
	t.recovered()
	t.leave(at + 1)
}

// maxReason bounds what is said of a parked event, in bytes: it travels with the event, which has a limit.
const maxReason = 512

func reason(seq uint64, why error) string {
	s := fmt.Sprintf("event %d: %v", seq, why)
	if len(s) > maxReason {
		s = s[:maxReason] + "..."
	}
	return s
}

// park puts an event into the stream of parked ones.
func (t *target) park(m bus.Message, why error) {
	p := t.p
	d := p.s.d.parked()
	p.insist("an event cannot be parked: it is tried again", func() error {
		b, err := p.n.ensure(p.ctx, d)
		if err != nil {
			return err
		}
		id := fmt.Sprintf("%s/%d/%d", p.s.name, p.from.Made, m.Seq)
		if n := p.generationOf(m.Seq); n > 0 {
			id += fmt.Sprint("/", n)
		}
		parked := bus.Message{Key: m.Key, Partition: m.Partition, Data: m.Data, Reason: reason(m.Seq, why), ID: id}
		_, err = b.Publish(p.ctx, p.n.nameOf(d), []bus.Message{parked})
		if errors.Is(err, bus.ErrTooLarge) { // with what is said of it, it is more than the server takes
			parked.Data = nil
			_, err = b.Publish(p.ctx, p.n.nameOf(d), []bus.Message{parked})
		}
		p.n.missed(d, err)
		return d.typed(err)
	})
	if p.ctx.Err() != nil {
		return
	}
	p.log().Warn("an event is parked", "grain", p.grainOf(t.key), "key", m.Key, "seq", m.Seq, "error", why)
	p.mu.Lock()
	p.stats.parked++
	p.mu.Unlock()
	t.noteTaken(m.Seq, false)
}
