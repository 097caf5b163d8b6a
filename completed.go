package raysys

import (
	"context"
	"iter"
	"sync"
)

// AsCompleted yields the index and the ref of each future as it settles, first come first. It ends after the last one,
// or when ctx ends, which the caller sees in ctx.Err(). Leaving the loop early costs nothing. For refs that are made in
// the loop see RefSet.
func AsCompleted[T any](ctx context.Context, refs []Ref[T]) iter.Seq2[int, Ref[T]] {
	return func(yield func(int, Ref[T]) bool) {
		var s RefSet[T]
		s.Add(refs...)
		s.AsCompleted(ctx)(yield)
	}
}

// RefSet is a set of futures that may grow while a loop takes what has settled out of it:
//
//	var open raysys.RefSet[int]
//	open.Add(first...)
//	for _, r := range open.AsCompleted(ctx) {
//		v, err := r.Get(ctx)
//		...
//		open.Add(next.Go(ctx, v))
//	}
//
// The zero value is an empty set. Any goroutine may call Add; one loop at a time runs over a set. A RefSet must not be
// copied.
type RefSet[T any] struct {
	mu    sync.Mutex // guards the rest
	open  []*member[T]
	added int
	loop  *arrivals[T] // nil while none runs
}

// member is one future of a set until the loop has yielded it.
type member[T any] struct {
	ref     Ref[T]
	index   int
	waiter  Waiter
	loop    *arrivals[T]
	yielded bool // guarded by the set's mu
}

// Resolved implements Resolved.
func (m *member[T]) Resolved(*Waiter) {
	m.loop.put(m)
	m.loop.wake()
}

// Add puts refs into the set, under the next indices.
func (s *RefSet[T]) Add(refs ...Ref[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := make([]member[T], len(refs))
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

// AsCompleted yields the futures of the set as they settle, first come first, each with the number of its Add, and takes
// them out. It ends when the set is empty, or when ctx ends, which the caller sees in ctx.Err(). What a loop that was left
// early has not yielded stays in the set. A second loop at the same time panics.
func (s *RefSet[T]) AsCompleted(ctx context.Context) iter.Seq2[int, Ref[T]] {
	return func(yield func(int, Ref[T]) bool) {
		t, own, err := TurnOf(ctx)
		if err != nil {
			return
		}
		q := s.begin()
		defer s.end()
		for {
			m := q.take()
			for m == nil {
				cores, left := s.unsettled()
				if left == 0 {
					return
				}
				// A parker of its own for each wait: the scopes watched before may still be about to poke.
				p := &parker{poke: q.poke}
				if len(cores) > 0 && p.park(ctx, t, own, cores, 1, q.some) != nil {
					return
				}
				m = q.take()
			}
			ref := m.ref
			s.mu.Lock()
			m.yielded, m.ref, m.waiter = true, Ref[T]{}, Waiter{} // what was added with it may stay for long
			s.mu.Unlock()
			if !yield(m.index, ref) {
				return
			}
		}
	}
}

func (s *RefSet[T]) begin() *arrivals[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop != nil {
		panic("raysys: two loops over one RefSet at the same time: give each a set of its own")
	}
	s.loop = &arrivals[T]{parker: &parker{poke: make(chan struct{}, 1)}}
	for _, m := range s.open {
		s.loop.follow(m)
	}
	return s.loop
}

// end takes back what the loop subscribed to.
func (s *RefSet[T]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loop = nil
	s.compact()
	for i, m := range s.open {
		if c := m.waiter.core; c != nil {
			c.Unsubscribe(&m.waiter)
		}
		s.open[i] = &member[T]{ref: m.ref, index: m.index} // somebody may be telling m at this moment
	}
}

// compact drops what was yielded; the caller holds mu.
func (s *RefSet[T]) compact() {
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
func (s *RefSet[T]) unsettled() (cores []*Core, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact()
	for _, m := range s.open {
		if m.ref.f != nil && !m.ref.f.Settled() {
			cores = append(cores, &m.ref.f.Core)
		}
	}
	return cores, len(s.open)
}

// arrivals is the queue of settled members, in the order they settled.
type arrivals[T any] struct {
	*parker
	mu    sync.Mutex // guards the rest
	queue []*member[T]
	grown bool // since the last take
}

// follow has m arrive once it has settled.
func (q *arrivals[T]) follow(m *member[T]) {
	m.loop = q
	if m.ref.f == nil || !m.ref.f.Subscribe(&m.waiter, m) {
		q.put(m)
	}
}

func (q *arrivals[T]) put(m *member[T]) {
	q.mu.Lock()
	q.queue = append(q.queue, m)
	q.mu.Unlock()
}

// grow has a loop that waits look at the set again.
func (q *arrivals[T]) grow() {
	q.mu.Lock()
	q.grown = true
	q.mu.Unlock()
	q.wake()
}

func (q *arrivals[T]) take() *member[T] {
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

func (q *arrivals[T]) some() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0 || q.grown
}
