package outbox

import (
	"fmt"
	"maps"
	"math"
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
	maxReceivers = 256       // to which messages are on their way at a time, less those that hang
	maxFlying    = 1024      // the same with those that hang
	hangsAfter   = 5 * time.Second
	wide         = 32 // messages on their way to one receiver, once one has arrived
	firstPause   = 10 * time.Millisecond
	lastPause    = 30 * time.Second
)

// Box has the messages of one grain that are stored. The lock of its Sender guards it.
type Box struct {
	N, Size int              // of messages that have not arrived, with those of turns whose commit is to come
	lines   map[string]*line // by kind and receiver
	ready   []*line          // which may have something to send, the longest first
	paused  []*line
	active  int      // lines with messages on their way, less those that hang
	hung    int      // those that hang: for hangsAfter no answer has come
	look    int64    // before it none of active begins to hang
	gone    []uint64 // they have arrived, and the next commits remove their records
}

// line are the messages to one receiver.
type line struct {
	queue   []*Message // the oldest first; one that has arrived goes when those before it have
	flight  int
	asked   int64  // when the first of them left, or an answer came since
	hung    bool   // it counts in Box.hung
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

// unreadable is the key of the line of messages whose receivers cannot be read. It sends nothing, and nothing is sent
// that stands behind its first.
const unreadable = "\x00" // of no kind and no receiver

// bar is the number behind which nothing is sent.
func (b *Box) bar() uint64 {
	if l := b.lines[unreadable]; l != nil {
		return l.queue[0].Number
	}
	return math.MaxUint64
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

// room reports whether messages may leave to one receiver more. One that hangs gives its place to another; what is on
// its way to it stays so.
func (b *Box) room(now int64) bool {
	if b.active >= maxReceivers && now >= b.look {
		b.look = now + int64(hangsAfter)
		for _, l := range b.lines {
			switch until := l.asked + int64(hangsAfter); {
			case l.flight == 0 || l.hung:
			case until <= now:
				l.hung = true
				b.active, b.hung = b.active-1, b.hung+1
			default:
				b.look = min(b.look, until)
			}
		}
	}
	return b.active < maxReceivers && b.active+b.hung < maxFlying
}

// answered notes an answer of a receiver, or that none is awaited any more of some of its messages.
func (b *Box) answered(l *line, now int64, ended int) {
	if l.hung {
		l.hung = false
		b.active, b.hung = b.active+1, b.hung-1
	}
	l.asked = now
	if l.flight -= ended; l.flight == 0 {
		b.active--
	}
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
	bar := b.bar()
	for n := len(b.ready); n > 0; n-- {
		l := b.ready[0]
		b.ready = b.ready[1:]
		if l.flight == 0 && !b.room(now) {
			b.ready = append(b.ready, l) // it comes when a message to another has arrived, or one hangs
			if b.active >= maxReceivers && (again == 0 || b.look < again) {
				again = b.look
			}
			continue
		}
		l.ready = false
		if l.again != 0 || len(l.queue) == 0 {
			continue
		}
		for i, m := range l.queue[:l.window()] {
			if m.Bad != nil || m.Number > bar {
				break
			}
			if m.state != waiting {
				continue
			}
			m.state, m.Before = sent, 0
			if i > 0 {
				m.Before = l.queue[i-1].Number
			}
			if l.flight++; l.flight == 1 {
				b.active++
				l.asked = now
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
	b.answered(l, now, 1)
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
	b.shorten(l)
	return 0
}

// shorten takes what has arrived from the head of a line.
func (b *Box) shorten(l *line) {
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
}

// Drop gives up the messages that match, unless they have arrived. It returns how many, and the number of the last;
// their records go with the next commits. What is on its way may still arrive.
func (b *Box) Drop(match func(*Message) bool) (n int, last uint64) {
	for _, key := range slices.Sorted(maps.Keys(b.lines)) {
		l, flying := b.lines[key], 0
		l.queue = slices.DeleteFunc(l.queue, func(m *Message) bool {
			if m.state == arrived || !match(m) {
				return false
			}
			if m.state == sent {
				flying++
			}
			b.Count([]*Message{m}, -1)
			b.gone = append(b.gone, m.Number)
			m.state, last = dropped, m.Number
			n++
			return true
		})
		if flying > 0 {
			b.answered(l, l.asked, flying)
		}
		b.shorten(l) // it may be in ready or paused without messages; each line looks what of it may go now
	}
	return n, last
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
