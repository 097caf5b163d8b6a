package wheel

import (
	"math/bits"

	"github.com/raysys/raysys/internal/core"
)

const (
	levels    = 5
	digit     = 6 // bits of a tick that one level looks at
	slotCount = 1 << digit
	top       = levels - 1

	// dueSlot is the list of alarms whose tick has come and that wait for their turn to ring.
	dueSlot = levels * slotCount
)

// slots is the wheel without clock and lock: alarms by the tick at which they are due.
//
// An alarm lies on the level of the highest digit (base 64) in which its due tick differs from cur. So on every level
// below the top each occupied slot begins after cur and within the slot of the next level that holds cur, which makes
// the lowest occupied level the one that comes first. On the top level a slot may belong to a later round.
type slots struct {
	cur   int64 // every tick up to this one has rung
	count int   // alarms in all lists
	used  [levels]uint64
	lists [dueSlot + 1]*core.Alarm // heads; a head's Prev is the tail, a tail's Next is nil
}

// spot returns the list for a due tick after cur.
func (s *slots) spot(due int64) int {
	differ := uint64(s.cur^due) | (slotCount - 1)
	level := min((bits.Len64(differ)-1)/digit, top)
	return level<<digit | int(due>>(level*digit))&(slotCount-1)
}

// begin returns the first tick after cur at which the list's slot begins.
func (s *slots) begin(list int) int64 {
	level := list >> digit
	shift := level * digit
	span := int64(1) << (shift + digit)
	t := s.cur&^(span-1) + int64(list&(slotCount-1))<<shift
	if t <= s.cur {
		t += span // only on the top level: the next round
	}
	return t
}

// first returns the occupied list that begins first, or -1.
func (s *slots) first() int {
	for level, used := range s.used {
		if used == 0 {
			continue
		}
		// Rotated so that bit 0 is the slot after cur's: on the top level cur's own slot comes last, one round later.
		from := int(s.cur>>(level*digit))&(slotCount-1) + 1
		n := bits.TrailingZeros64(bits.RotateLeft64(used, -from))
		return level<<digit | (from+n)&(slotCount-1)
	}
	return -1
}

func (s *slots) link(a *core.Alarm, list int) {
	head := s.lists[list]
	if head == nil {
		s.lists[list] = a
		a.Prev = a
		if list != dueSlot {
			s.used[list>>digit] |= 1 << (list & (slotCount - 1))
		}
	} else {
		tail := head.Prev
		tail.Next, a.Prev, head.Prev = a, tail, a
	}
	a.Slot = int32(list) + 1 // the zero Alarm is in no list
	s.count++
}

func (s *slots) unlink(a *core.Alarm) {
	list := int(a.Slot) - 1
	head := s.lists[list]
	switch {
	case a == head:
		s.lists[list] = a.Next
		if a.Next != nil {
			a.Next.Prev = a.Prev
		} else if list != dueSlot {
			s.used[list>>digit] &^= 1 << (list & (slotCount - 1))
		}
	default:
		a.Prev.Next = a.Next
		if a.Next != nil {
			a.Next.Prev = a.Prev
		} else {
			head.Prev = a.Prev
		}
	}
	a.Next, a.Prev, a.Slot = nil, nil, 0
	s.count--
}

// open moves cur to the beginning of list and empties it: alarms that are due go to the due list, the rest to lower
// levels, both in the order in which they were set.
func (s *slots) open(list int) {
	s.cur = s.begin(list)
	a := s.lists[list]
	s.lists[list] = nil
	s.used[list>>digit] &^= 1 << (list & (slotCount - 1))
	for a != nil {
		next := a.Next
		a.Next, a.Prev = nil, nil
		s.count--
		if due := dueTick(a.At); due <= s.cur {
			s.link(a, dueSlot)
		} else {
			s.link(a, s.spot(due))
		}
		a = next
	}
}

// drop forgets every alarm. Their links go too, so that one record that is kept does not keep the others alive.
func (s *slots) drop() {
	for i, a := range s.lists {
		for a != nil {
			next := a.Next
			a.Next, a.Prev, a.Slot = nil, nil, 0
			a = next
		}
		s.lists[i] = nil
	}
	s.used = [levels]uint64{}
	s.count = 0
}

// dueTick is the first tick that does not begin before at.
func dueTick(at int64) int64 {
	t := at / tick
	if at%tick > 0 {
		t++
	}
	return t
}
