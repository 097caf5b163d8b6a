package stream

import (
	"time"

	"github.com/raysys/raysys/stream/internal/bus"
)

// load is a number of events in memory, and their bytes.
type load struct{ events, bytes int }

func (l load) plus(m load) load  { return load{l.events + m.events, l.bytes + m.bytes} }
func (l load) minus(m load) load { return load{l.events - m.events, l.bytes - m.bytes} }
func (l load) part(n int) load   { return load{l.events / n, l.bytes / n} }
func (l load) fits(more, in load) bool {
	return l.events == 0 || l.events+more.events <= in.events && l.bytes+more.bytes <= in.bytes
}

// What a pump has in memory: 1,024 events and 16 MiB, of which its reader's client has 128 events and 4 MiB.
var (
	most  = load{1024 - 128, 12 << 20}
	share = most.part(8) // of one target, of what was not read before
	// mostAgain bounds events that were left in the bus and are read again, so that new ones find room.
	mostAgain = most.part(2)
)

const (
	// largest is what an event has at most where the server has its usual bound.
	largest = 1<<20 + 4<<10
	// beside is what an event has in memory beside its bytes.
	beside = 256
	// few events of a key are read one by one: that makes no consumer on the server.
	few = 4
	// slowShare is for how long a target's events may wait when it has its share: then it is slow, and its later ones are left in the bus. A
	// faster one is waited for, since reading an event twice costs more. slowFull is that for any target while there is no room. With To it is
	// not used: what one grain has left is read again with all that lies between.
	slowShare = 100 * time.Millisecond
	slowFull  = time.Second
	// maxBusy bounds the targets that have events in memory or in the bus. The reader waits when there are so many.
	maxBusy = 1 << 16
)

func loadOf(m *bus.Message) load { return load{1, beside + len(m.Key) + len(m.Data) + len(m.Reason)} }

// hold notes events that are in memory; again says that they were left in the bus before. p.mu is held.
func (p *pump) hold(l load, again bool) {
	p.held = p.held.plus(l)
	if again {
		p.again = p.again.plus(l)
	}
}

// free notes that they are not. p.mu is held.
func (p *pump) free(l load, again bool) {
	p.held = p.held.minus(l)
	if again {
		p.again = p.again.minus(l)
	}
}

// roomFor says what becomes of the next event, which is for t: 0: it may be taken, or left in the bus where leave says so; else the reader waits
// until there is room, or for so long at most. p.mu is held.
func (p *pump) roomFor(t *target, l load) (wait time.Duration, leave bool) {
	const long = time.Hour
	slow := slowFull
	switch waits := t != nil && len(t.queue) > 0; {
	case t != nil && t.behind:
		return 0, true
	case waits && !t.held.fits(l, share):
		slow = slowShare
	case !p.starved && p.held.fits(l, most) && (p.busy < maxBusy || t != nil && t.busy):
		return 0, false
	case !waits || p.s.to != nil:
		return long, false
	}
	wait = slow - time.Since(t.queue[0].at)
	return max(wait, 0), wait <= 0
}

// start has targets read what they left in the bus, as far as there is room, the one first that has waited longest. p.mu is held.
func (p *pump) start() {
	p.starved = false
	for len(p.ready) > 0 && p.ctx.Err() == nil {
		t := p.ready[0]
		l := t.wants()
		if !p.again.fits(l, mostAgain) {
			break
		}
		if !p.held.fits(l, most) {
			p.starved = true // else the reader would take each bit of room as it comes
			break
		}
		p.ready[0] = nil
		p.ready = p.ready[1:]
		p.hold(l, true)
		p.wg.Go(func() {
			t.refill(l)
			t.run()
		})
	}
	p.room.Broadcast()
}

// wants is the room for what the target reads next. p.mu is held.
func (t *target) wants() load {
	p := t.p
	l := mostAgain.minus(p.again).part(8) // so that there is some for others, however many are behind
	l = load{max(l.events, 1), max(l.bytes, 0) + largest}
	switch t.single = t.tries > 0 || p.s.to == nil && min(l.events, t.left) <= few; {
	case t.tries > 0:
		return load{1, t.size}
	case t.single:
		return load{1, largest}
	}
	return l
}
