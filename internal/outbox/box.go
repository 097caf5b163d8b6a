package outbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
)

// Bounds of what one grain has sent and what has not arrived.
const (
	Max          = 4096
	MaxBytes     = 512 << 10
	MaxTurn      = 1024      // messages of a turn
	MaxTurnBytes = 128 << 10 // and their bytes
	maxReceivers = 256       // to which messages are on their way at a time
	wide         = 32        // messages on their way to one receiver, once one has arrived
	firstPause   = 10 * time.Millisecond
	lastPause    = 30 * time.Second
)

// Box has the messages of one grain that are stored. The lock of its Sender guards it.
type Box struct {
	N, Size int              // of messages that have not arrived, with those of turns whose commit is to come
	lines   map[string]*line // by kind and receiver
	ready   []*line          // which may have something to send, the longest first
	paused  []*line
	active  int      // lines with messages on their way
	gone    []uint64 // they have arrived, and the next commits remove their records
}

// line are the messages to one receiver.
type line struct {
	queue   []*Message // the oldest first; one that has arrived goes when those before it have
	flight  int
	known   bool   // a message has arrived since the last that did not
	ready   bool   // it is in Box.ready
	again   int64  // when the pause after a fault is over; 0: there is none
	tries   int    // in vain, in a row
	why     error  // of the last
	ordered string // its key in Box.lines
}

func (m *Message) line() string { return m.Kind + "\x00" + m.To }

// Count counts the messages of a turn that has ended; by is 1, or -1 where its commit was refused.
func (b *Box) Count(list []*Message, by int) {
	for _, m := range list {
		b.N += by
		b.Size += by * len(m.Record)
	}
}

// Full says why no further turn may begin: there are so many messages. A call that is a message itself may begin one
// at up to twice as many, so that two grains which send to each other, or one to itself, go on.
func (b *Box) Full(message bool) error {
	n, size := Max, MaxBytes
	if message {
		n, size = 2*n, 2*size
	}
	if b.N < n && b.Size < size {
		return nil
	}
	return fmt.Errorf(
		"%w: %d messages of the grain, of %d bytes, have not arrived at their receivers yet, and at most %d of %d are "+
			"kept: call it less often, or see to the receivers",
		raysys.ErrOverloaded, b.N, b.Size, n, size)
}

// Add takes messages that are stored, in the order of their numbers.
func (b *Box) Add(list []*Message) {
	for _, m := range list {
		key := m.line()
		l := b.lines[key]
		if l == nil {
			if b.lines == nil {
				b.lines = map[string]*line{}
			}
			l = &line{ordered: key}
			b.lines[key] = l
		}
		l.queue = append(l.queue, m)
		b.enter(l)
	}
}

// Restore takes what is stored, in the order of the numbers, after a commit whose outcome was not known.
func (b *Box) Restore(list []*Message) {
	stored := make(map[uint64]bool, len(list))
	for _, m := range list {
		stored[m.Number] = true
	}
	b.gone = slices.DeleteFunc(b.gone, func(n uint64) bool { return !stored[n] })
	known := map[uint64]bool{}
	for _, n := range b.gone {
		known[n] = true
	}
	for _, l := range b.lines {
		for _, m := range l.queue {
			known[m.Number] = true
		}
	}
	list = slices.DeleteFunc(list, func(m *Message) bool { return known[m.Number] })
	for _, m := range list {
		m.Tried = true
	}
	b.Count(list, 1)
	b.Add(list)
}

func (b *Box) enter(l *line) {
	if !l.ready {
		l.ready = true
		b.ready = append(b.ready, l)
	}
}

// window is how many messages of the line may be on their way. To a receiver that keeps no order by their numbers goes
// one at a time.
func (l *line) window() int {
	if l.known && l.queue[0].Wide {
		return min(wide, len(l.queue))
	}
	return 1
}

// Next returns what is to be sent now, and when to ask again, 0 for not before something arrives.
func (b *Box) Next(now int64) (list []*Message, again int64) {
	b.paused = slices.DeleteFunc(b.paused, func(l *line) bool {
		if l.again > now {
			if again == 0 || l.again < again {
				again = l.again
			}
			return false
		}
		l.again = 0
		b.enter(l)
		return true
	})
	for n := len(b.ready); n > 0; n-- {
		l := b.ready[0]
		b.ready = b.ready[1:]
		if l.flight == 0 && b.active >= maxReceivers {
			b.ready = append(b.ready, l) // it comes when a message to another has arrived
			continue
		}
		l.ready = false
		if l.again != 0 || len(l.queue) == 0 {
			continue
		}
		for i, m := range l.queue[:l.window()] {
			if m.state != waiting {
				continue
			}
			m.state, m.Before = sent, 0
			if i > 0 {
				m.Before = l.queue[i-1].Number
			}
			if l.flight++; l.flight == 1 {
				b.active++
			}
			list = append(list, m)
		}
	}
	return list, again
}

// Ended notes what became of a message that was on its way: it has arrived, or err says why not. It returns how often
// in a row that has been so.
func (b *Box) Ended(m *Message, err error, now int64) (tries int) {
	if m.state == dropped {
		return 0
	}
	l := b.lines[m.line()]
	if l.flight--; l.flight == 0 {
		b.active--
	}
	if err != nil {
		m.state, m.Tried, l.known, l.why = waiting, true, false, err
		if l.again == 0 { // else the pause is for one before it
			pause := min(firstPause<<min(l.tries, 20), lastPause)
			l.tries++
			l.again = now + int64(pause)
			b.paused = append(b.paused, l)
		}
		return l.tries
	}
	m.state, l.known, l.tries = arrived, true, 0
	b.Count([]*Message{m}, -1)
	b.gone = append(b.gone, m.Number)
	n := 0
	for n < len(l.queue) && l.queue[n].state == arrived {
		l.queue[n] = nil
		n++
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		delete(b.lines, l.ordered)
	} else {
		b.enter(l)
	}
	return 0
}

// Gone returns up to limit numbers of messages that have arrived: a commit removes their records, and Removed follows
// it.
func (b *Box) Gone(limit int) []uint64 { return b.gone[:min(limit, len(b.gone))] }

// Removed is called when the records of those messages are gone.
func (b *Box) Removed(list []uint64) {
	removed := make(map[uint64]bool, len(list))
	for _, n := range list {
		removed[n] = true
	}
	b.gone = slices.DeleteFunc(b.gone, func(n uint64) bool { return removed[n] })
}
