package replay

import (
	"math/rand/v2"
)

// selector orders the items of a table, which it knows by the numbers of their slots.
type selector interface {
	insert(slot int, priority float64)
	remove(slot int)
	update(slot int, priority float64)
	// pick returns a slot of those that were inserted, of which there is one at least, and with which probability.
	pick(r *rand.Rand) (slot int, probability float64)
}

// Selector says which item of a table is taken next: to be sampled, or to go when the table is full.
type Selector struct {
	name     string
	exponent float64
	weighs   bool // an item's probability is its share of a sum: over several shards, of theirs
	make     func() selector
}

// String is its name, as Reverb has it.
func (s Selector) String() string { return s.name }

// The selectors.
var (
	// Uniform takes each item with the same probability.
	Uniform = Selector{name: "uniform", weighs: true, make: func() selector { return &uniform{} }}
	// FIFO takes the oldest item.
	FIFO = Selector{name: "fifo", make: func() selector { return newQueue(false) }}
	// LIFO takes the newest item.
	LIFO = Selector{name: "lifo", make: func() selector { return newQueue(true) }}
	// MinHeap takes the item of the lowest priority, and MaxHeap that of the highest: of those that are equal the one
	// that was inserted or updated first.
	MinHeap = Selector{name: "min_heap", make: func() selector { return &heaped{sign: 1} }}
	MaxHeap = Selector{name: "max_heap", make: func() selector { return &heaped{sign: -1} }}
)

// Prioritized takes an item with a probability in proportion to its priority to the power of exponent (Schaul et al., 2015). Items of
// priority 0 are taken only where there are no others.
func Prioritized(exponent float64) Selector {
	return Selector{name: "prioritized", exponent: exponent, weighs: true, make: func() selector { return &prioritized{exponent: exponent} }}
}

// grow makes a list as long as it takes to have an index.
func grow[T any](list []T, index int) []T {
	for len(list) <= index {
		var none T
		list = append(list, none)
	}
	return list
}

// uniform has the slots in any order; at is where each is.
type uniform struct{ slots, at []int32 }

func (u *uniform) insert(slot int, _ float64) {
	u.at = grow(u.at, slot)
	u.at[slot] = int32(len(u.slots))
	u.slots = append(u.slots, int32(slot))
}

func (u *uniform) remove(slot int) {
	i, last := u.at[slot], u.slots[len(u.slots)-1]
	u.slots[i], u.at[last] = last, i
	u.slots = u.slots[:len(u.slots)-1]
}

func (u *uniform) update(int, float64) {}

func (u *uniform) pick(r *rand.Rand) (int, float64) {
	return int(u.slots[r.IntN(len(u.slots))]), 1 / float64(len(u.slots))
}

// queue is a ring of links through the slots: next[0] is the oldest and last[0] the newest, of slots that count from 1.
type queue struct {
	newest     bool // which pick takes
	next, last []int32
}

func newQueue(newest bool) *queue {
	return &queue{newest: newest, next: make([]int32, 1), last: make([]int32, 1)}
}

func (q *queue) insert(slot int, _ float64) {
	i := int32(slot + 1)
	q.next, q.last = grow(q.next, int(i)), grow(q.last, int(i))
	before := q.last[0]
	q.next[before], q.last[i], q.next[i], q.last[0] = i, before, 0, i
}

func (q *queue) remove(slot int) {
	i := slot + 1
	q.next[q.last[i]], q.last[q.next[i]] = q.next[i], q.last[i]
}

func (q *queue) update(int, float64) {}

func (q *queue) pick(*rand.Rand) (int, float64) {
	if q.newest {
		return int(q.last[0]) - 1, 1
	}
	return int(q.next[0]) - 1, 1
}

// heaped is a binary heap of slots; at is where each is.
type heaped struct {
	sign     float64
	slots    []int32
	at       []int32
	priority []float64 // times sign
	age      []uint64
	inserts  uint64 // and updates
}

func (h *heaped) before(a, b int32) bool {
	if h.priority[a] != h.priority[b] {
		return h.priority[a] < h.priority[b]
	}
	return h.age[a] < h.age[b]
}

func (h *heaped) insert(slot int, priority float64) {
	h.at, h.priority, h.age = grow(h.at, slot), grow(h.priority, slot), grow(h.age, slot)
	h.inserts++
	h.at[slot], h.priority[slot], h.age[slot] = int32(len(h.slots)), priority*h.sign, h.inserts
	h.slots = append(h.slots, int32(slot))
	h.fix(slot)
}

func (h *heaped) remove(slot int) {
	i, end := h.at[slot], len(h.slots)-1
	last := h.slots[end]
	h.slots[i], h.at[last] = last, i
	h.slots = h.slots[:end]
	if int(last) != slot {
		h.fix(int(last))
	}
}

func (h *heaped) update(slot int, priority float64) {
	h.inserts++
	h.priority[slot], h.age[slot] = priority*h.sign, h.inserts
	h.fix(slot)
}

func (h *heaped) pick(*rand.Rand) (int, float64) { return int(h.slots[0]), 1 }

// fix moves a slot to where it belongs.
func (h *heaped) fix(slot int) {
	i := int(h.at[slot])
	for i > 0 && h.before(h.slots[i], h.slots[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		c := 2*i + 1
		if c+1 < len(h.slots) && h.before(h.slots[c+1], h.slots[c]) {
			c++
		}
		if c >= len(h.slots) || !h.before(h.slots[c], h.slots[i]) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *heaped) swap(i, j int) {
	h.slots[i], h.slots[j] = h.slots[j], h.slots[i]
	h.at[h.slots[i]], h.at[h.slots[j]] = int32(i), int32(j)
}
