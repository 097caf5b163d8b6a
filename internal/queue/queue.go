package queue

import "sync/atomic"

// segmentSize trades the allocation per segment (4 KiB of slots) against memory held by a queue that is nearly empty.
const segmentSize = 512

// Queue holds pointers to T. Make it with New.
type Queue[T any] struct {
	head atomic.Pointer[segment[T]] // consumers
	_    [56]byte                   // producers and consumers write on lines of their own
	tail atomic.Pointer[segment[T]]
	_    [56]byte
	gone *T // marks a slot that was consumed, or poisoned before its producer came
}

type segment[T any] struct {
	enqueue atomic.Uint64
	_       [56]byte
	dequeue atomic.Uint64
	_       [56]byte
	base    uint64 // slots in all segments before this one
	next    atomic.Pointer[segment[T]]
	slots   [segmentSize]atomic.Pointer[T]
}

// New returns an empty queue.
func New[T any]() *Queue[T] {
	q := &Queue[T]{gone: new(T)}
	s := &segment[T]{}
	q.head.Store(s)
	q.tail.Store(s)
	return q
}

// Push appends x, which must not be nil.
func (q *Queue[T]) Push(x *T) {
	for {
		s := q.tail.Load()
		if i := s.enqueue.Add(1) - 1; i < segmentSize {
			if s.slots[i].CompareAndSwap(nil, x) {
				return
			}
			continue
		}
		if next := s.next.Load(); next != nil {
			q.tail.CompareAndSwap(s, next)
			continue
		}
		n := &segment[T]{base: s.base + segmentSize}
		n.enqueue.Store(1)
		n.slots[0].Store(x)
		if s.next.CompareAndSwap(nil, n) {
			q.tail.CompareAndSwap(s, n)
			return
		}
	}
}

// Pop removes the oldest element, nil when there is none.
func (q *Queue[T]) Pop() *T {
	for {
		s := q.head.Load()
		if s.dequeue.Load() >= min(s.enqueue.Load(), segmentSize) {
			if s.dequeue.Load() < segmentSize {
				return nil
			}
			next := s.next.Load()
			if next == nil {
				return nil
			}
			q.head.CompareAndSwap(s, next)
			continue
		}
		i := s.dequeue.Add(1) - 1
		if i >= segmentSize {
			continue
		}
		if x := s.slots[i].Swap(q.gone); x != nil {
			return x
		}
	}
}

// Empty reports whether Pop would have found nothing just now.
func (q *Queue[T]) Empty() bool {
	s := q.head.Load()
	d := s.dequeue.Load()
	return d >= min(s.enqueue.Load(), segmentSize) && (d < segmentSize || s.next.Load() == nil)
}

// Pushed returns the number of slots producers have taken. Poisoned ones count too, so Pushed - Popped is the length.
func (q *Queue[T]) Pushed() uint64 {
	s := q.tail.Load()
	return s.base + min(s.enqueue.Load(), segmentSize)
}

// Popped returns the number of slots consumers have taken.
func (q *Queue[T]) Popped() uint64 {
	s := q.head.Load()
	return s.base + min(s.dequeue.Load(), segmentSize)
}

// Each calls f with the elements, oldest first, and the count of those pushed before each, until f returns false. What is taken
// or pushed meanwhile may be among them or not.
func (q *Queue[T]) Each(f func(before uint64, x *T) bool) {
	for s := q.head.Load(); s != nil; s = s.next.Load() {
		for i := min(s.dequeue.Load(), segmentSize); i < min(s.enqueue.Load(), segmentSize); i++ {
			if x := s.slots[i].Load(); x != nil && x != q.gone && !f(s.base+i, x) {
				return
			}
		}
	}
}
