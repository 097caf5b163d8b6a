package stream

import (
	"errors"
	"fmt"
	"math"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/stream/internal/bus"
)

// target is one grain to which a pump delivers.
type target struct {
	p   *pump
	key string

	// The pump's mu guards the rest.
	running bool
	queue   []item // the first is in flight
	done    uint64 // the number of the last event that it took; 0 where that is not known
	// behind: events from next on are not in the queue: they are read again from the bus.
	behind bool
	next   uint64
	last   uint64 // the number of the last one that it left there
}

// item is an event that waits, with what keeps it from having a grain.
type item struct {
	bus.Message
	bad   error
	apart bool // it does not count among those that wait: its grain fails, and others are to have room
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

// run delivers what the target has, and then what it left in the bus.
func (t *target) run() {
	p := t.p
	for p.ctx.Err() == nil {
		p.mu.Lock()
		switch {
		case len(t.queue) > 0:
			first := t.queue[0]
			p.mu.Unlock()
			t.deliver(first)
		case t.behind && t.next <= t.last:
			from, to := t.next, t.last
			p.mu.Unlock()
			t.refill(from, to)
		default:
			t.running, t.behind, t.queue = false, false, nil
			p.mu.Unlock()
			return
		}
	}
}

// refill reads some of the events that the target left in the bus.
func (t *target) refill(from, to uint64) {
	p := t.p
	var batch []item
	p.insist("the events of a grain that is behind cannot be read: it is tried again", func() error {
		batch = batch[:0]
		b, err := p.n.ensure(p.ctx, p.s.d)
		if err != nil {
			return err
		}
		f := bus.Filter{Partition: p.partition, Made: p.made}
		if p.s.to == nil {
			f.Key = &t.key
		}
		err = b.Read(p.ctx, p.n.nameOf(p.s.d), f, from, to, func(m bus.Message) bool {
			key, bad := p.s.target(&m)
			if bad != nil {
				key = ""
			}
			if key == t.key {
				batch = append(batch, item{Message: m, bad: bad})
			}
			return len(batch) < catchUp
		})
		p.n.missed(p.s.d, err)
		return err
	})
	if p.ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.next = to + 1
	if n := len(batch); n > 0 {
		t.queue = batch
		p.waiting += n
		p.stats.left -= n
		if n == catchUp {
			t.next = batch[n-1].Seq + 1
		}
	}
}

// deliver has the grain take the event, or parks it. It returns when that is so, or the events of the target have to be read again.
func (t *target) deliver(m item) {
	p, s := t.p, t.p.s
	if m.bad != nil {
		t.park(m.Message, m.bad)
		return
	}
	p.mu.Lock()
	d := delivery{
		Subscription: s.name, Partition: p.partition, Made: p.made, Key: m.Key, Seq: m.Seq, Prev: t.done, Time: m.Time.UnixNano(), Data: m.Data, Reason: m.Reason,
	}
	p.mu.Unlock()
	failing := false
	for n, failed := 0, 0; ; n++ {
		o, err := s.send(p.ctx, t.key, d).Get(p.ctx)
		switch {
		case p.ctx.Err() != nil:
			return
		case err == nil && o.Unreadable != "":
			t.fails(&failing, false)
			t.park(m.Message, errors.New(o.Unreadable))
			return
		case err == nil && o.Lost:
			t.fails(&failing, false)
			t.rewind(o.At)
			return
		case err == nil:
			t.fails(&failing, false)
			t.took(m.Seq, o.Cursor)
			return
		}
		var handler *raysys.TaskError
		if errors.As(err, &handler) {
			failed++
		}
		if s.attempts > 0 && failed >= s.attempts {
			t.fails(&failing, false)
			if s.park {
				t.park(m.Message, err)
			} else {
				p.log().Warn("an event is dropped", "grain", p.grainOf(t.key), "key", m.Key, "seq", m.Seq, "error", err)
				t.took(m.Seq, false)
			}
			return
		}
		if !failing {
			p.log().Warn("an event is not taken: it comes again", "grain", p.grainOf(t.key), "key", m.Key, "seq", m.Seq, "error", err)
		}
		t.fails(&failing, true)
		if !p.pause(n, s.most) {
			return
		}
	}
}

// fails notes whether the grain fails. While it does, events behind the first are left in the bus.
func (t *target) fails(was *bool, now bool) {
	if *was == now {
		return
	}
	*was = now
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now {
		p.stats.failing--
		return
	}
	p.stats.failing++
	n := len(t.queue)
	if !t.behind {
		t.behind, t.next, t.last = true, t.queue[0].Seq+1, t.queue[n-1].Seq
	} else if n > 1 {
		t.next = t.queue[1].Seq
	}
	p.stats.left += n - 1
	first := t.queue[0]
	if first.apart {
		n--
	}
	p.drop(n)
	first.apart = true
	t.queue = []item{first}
}

// drop notes that n events wait no longer. p.mu is held.
func (p *pump) drop(n int) {
	p.waiting -= n
	p.room.Broadcast()
}

// took notes that the first event is dealt with: it was taken by the grain, whose cursor is there now, or by nobody.
func (t *target) took(seq uint64, byGrain bool) {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if byGrain {
		t.done = seq
	}
	p.stats.taken++
	t.pop()
}

// pop takes the first event out. p.mu is held.
func (t *target) pop() {
	if !t.queue[0].apart {
		t.p.drop(1)
	}
	t.queue[0] = item{}
	t.queue = t.queue[1:]
}

// rewind has the target read again what its grain has lost.
func (t *target) rewind(at uint64) {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log().Error("a grain has lost its State: it gets the events since again", "grain", p.grainOf(t.key), "had", t.done, "has", at)
	t.done, t.behind, t.next, t.last = at, true, at+1, max(t.last, t.queue[len(t.queue)-1].Seq)
	for len(t.queue) > 0 {
		t.pop()
	}
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
		parked := bus.Message{Key: m.Key, Partition: m.Partition, Data: m.Data, Reason: reason(m.Seq, why), ID: fmt.Sprintf("%s/%d/%d", p.s.name, p.made, m.Seq)}
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
	t.took(m.Seq, false)
}
