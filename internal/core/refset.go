package core

import (
	"context"
	"iter"
	"sync"
)

// RefSet is what raysys.RefSet is made of; R is the program's Ref[T].
type RefSet[T any, R ~struct{ Link[T] }] struct {
	mu    sync.Mutex // guards the rest
	open  []*member[T, R]
	added int
	loop  *arrivals[T, R] // nil while none runs
}

// member is one future of a set until the loop has yielded it.
type member[T any, R ~struct{ Link[T] }] struct {
	ref     R
	index   int
	waiter  Waiter
	loop    *arrivals[T, R]
	yielded bool // guarded by the set's mu
}

// Resolved implements Resolved.
func (m *member[T, R]) Resolved(*Waiter) {
	m.loop.put(m)
	m.loop.wake()
}

// Add puts refs into the set.
func (s *RefSet[T, R]) Add(refs []R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := make([]member[T, R], len(refs))
	for i, r := range refs {
		m := &members[i]
		m.ref, m.index = r, s.added
		s.added++
		s.open = append(s.open, m)
		if s.loop != nil {
			s.loop.follow(m)
		}
	}
	if s.loop != nil && len(refs) > 0 {
		s.loop.grow()
	}
}

// AsCompleted yields the futures of the set as they settle.
func (s *RefSet[T, R]) AsCompleted(ctx context.Context) iter.Seq2[int, R] {
	return func(yield func(int, R) bool) {
		t, own, err := TurnOf(ctx)
		if err != nil {
			return
		}
		q := s.begin()
		defer s.end()
		for {
			m := q.take()
			for m == nil {
				futures, left := s.unsettled()
				if left == 0 {
					return
				}
				// A parker of its own for each wait: the scopes watched before may still be about to poke.
				p := &parker{poke: q.poke}
				if len(futures) > 0 && p.park(ctx, t, own, futures, 1, q.some) != nil {
					return
				}
				m = q.take()
			}
			ref := m.ref
			s.mu.Lock()
			var none R
			m.yielded, m.ref, m.waiter = true, none, Waiter{} // the references that were added with it may stay for long
			s.mu.Unlock()
			if !yield(m.index, ref) {
				return
			}
		}
	}
}

func (s *RefSet[T, R]) begin() *arrivals[T, R] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop != nil {
		panic("raysys: two loops over one RefSet at the same time: give each a set of its own")
	}
	s.loop = &arrivals[T, R]{parker: &parker{poke: make(chan struct{}, 1)}}
	for _, m := range s.open {
		s.loop.follow(m)
	}
	return s.loop
}

// end takes back what the loop subscribed to.
func (s *RefSet[T, R]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loop = nil
	s.compact()
	for i, m := range s.open {
		if c := m.waiter.future; c != nil {
			c.Unsubscribe(&m.waiter)
		}
		s.open[i] = &member[T, R]{ref: m.ref, index: m.index} // another goroutine may be calling m.Resolved at this moment
	}
}

// compact drops what was yielded; the caller holds mu.
func (s *RefSet[T, R]) compact() {
	kept := s.open[:0]
	for _, m := range s.open {
		if !m.yielded {
			kept = append(kept, m)
		}
	}
	clear(s.open[len(kept):])
	s.open = kept
}

// unsettled returns the futures that have not settled, and how many members are left.
func (s *RefSet[T, R]) unsettled() (futures []*Future, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact()
	for _, m := range s.open {
		if f := futureOf(m.ref); f != nil && !f.Future.Settled() {
			futures = append(futures, &f.Future)
		}
	}
	return futures, len(s.open)
}

// arrivals is the queue of settled members, in the order they settled.
type arrivals[T any, R ~struct{ Link[T] }] struct {
	*parker
	mu    sync.Mutex // guards the rest
	queue []*member[T, R]
	grown bool // since the last take
}

// follow has m arrive once it has settled.
func (q *arrivals[T, R]) follow(m *member[T, R]) {
	m.loop = q
	if f := futureOf(m.ref); f == nil || !f.Future.Subscribe(&m.waiter, m) {
		q.put(m)
	}
}

func (q *arrivals[T, R]) put(m *member[T, R]) {
	q.mu.Lock()
	q.queue = append(q.queue, m)
	q.mu.Unlock()
}

// grow has a loop that waits look at the set again.
func (q *arrivals[T, R]) grow() {
	q.mu.Lock()
	q.grown = true
	q.mu.Unlock()
	q.wake()
}

func (q *arrivals[T, R]) take() *member[T, R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.grown = false
	if len(q.queue) == 0 {
		return nil
	}
	m := q.queue[0]
	q.queue = q.queue[1:]
	return m
}

func (q *arrivals[T, R]) some() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0 || q.grown
}
