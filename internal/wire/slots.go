package wire

import "sync"

// Slots numbers what is in flight at a peer, so that the answer finds it. A number carries a generation: a late or
// repeated answer to a slot that was used again finds nothing.
type Slots[T any] struct {
	mu     sync.Mutex // guards the rest
	closed bool
	list   []slot[T]
	free   []uint32
	used   int
}

type slot[T any] struct {
	v    T
	gen  uint32
	full bool
}

// Put enters v and returns its number; false once Drain was called.
func (s *Slots[T]) Put(v T) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, false
	}
	var i uint32
	if n := len(s.free); n > 0 {
		i = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		i = uint32(len(s.list))
		s.list = append(s.list, slot[T]{})
	}
	e := &s.list[i]
	e.v, e.full = v, true
	s.used++
	return uint64(e.gen)<<32 | uint64(i), true
}

// Take removes and returns what has the number; false when it was taken before.
func (s *Slots[T]) Take(number uint64) (v T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(number)
}

// TakeAll is Take for several: v[i] and ok[i] are what Take returns for numbers[i].
func (s *Slots[T]) TakeAll(numbers []uint64, v []T, ok []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range numbers {
		v[i], ok[i] = s.take(n)
	}
}

func (s *Slots[T]) take(number uint64) (v T, ok bool) {
	i := number & (1<<32 - 1)
	if i >= uint64(len(s.list)) {
		return v, false
	}
	e := &s.list[i]
	if !e.full || uint64(e.gen) != number>>32 {
		return v, false
	}
	v = e.v
	var zero T
	e.v, e.full = zero, false
	e.gen++
	s.free = append(s.free, uint32(i))
	s.used--
	return v, true
}

// Each calls f for all that is in flight. f must not call methods of s.
func (s *Slots[T]) Each(f func(number uint64, v T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		if e := &s.list[i]; e.full {
			f(uint64(e.gen)<<32|uint64(i), e.v)
		}
	}
}

// Look returns what has the number and leaves it there.
func (s *Slots[T]) Look(number uint64) (v T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := number & (1<<32 - 1)
	if i >= uint64(len(s.list)) || !s.list[i].full || uint64(s.list[i].gen) != number>>32 {
		return v, false
	}
	return s.list[i].v, true
}

// Len returns how many are in flight.
func (s *Slots[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Drain removes everything and refuses more: the peer is gone.
func (s *Slots[T]) Drain() (all []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for i := range s.list {
		if s.list[i].full {
			all = append(all, s.list[i].v)
		}
	}
	s.list, s.free, s.used = nil, nil, 0
	return all
}
