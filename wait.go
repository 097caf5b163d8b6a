package raysys

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Outcome is how one future ended.
type Outcome[T any] struct {
	Value T
	Err   error
}

// Outcomes are the ends of several futures, in their order.
type Outcomes[T any] []Outcome[T]

// Values returns the values, or the first error in order.
func (os Outcomes[T]) Values() ([]T, error) {
	vs := make([]T, len(os))
	for i, o := range os {
		if o.Err != nil {
			return nil, fmt.Errorf("outcome %d of %d: %w", i, len(os), o.Err)
		}
		vs[i] = o.Value
	}
	return vs, nil
}

// GetAll waits for all refs and returns each one's outcome: one failure hides no other result. When ctx ends first,
// the outcomes still open carry its end.
func GetAll[T any](ctx context.Context, refs []Ref[T]) Outcomes[T] {
	os := make(Outcomes[T], len(refs))
	for i, r := range refs {
		if r.f != nil && r.f.Absent() {
			for _, next := range refs[i:min(i+fetchAhead, len(refs))] {
				next.prefetch()
			}
		}
		os[i].Value, os[i].Err = r.Get(ctx)
	}
	return os
}

// fetchAhead is how many values that are elsewhere come at the same time.
const fetchAhead = 8

// prefetch has the value come if it is elsewhere: a Get follows.
func (r Ref[T]) prefetch() {
	if r.f == nil || !r.f.Absent() {
		return
	}
	if c := r.f.fetching(); c != nil {
		if w, ok := c.work.(wanter); ok {
			w.wanted()
		}
	}
}

// Wait returns when n of refs have settled, ready or failed, or when ctx ends; its deadline is the time limit. ready are
// the settled ones in the order they were found, rest the others in the order of refs. refs stays as it was; where ready
// are its first ones, both are parts of it, so change elements of copies only. When ctx ends first, ready holds what
// there is and err says why. n above len(refs) waits for all.
//
// A negative n is ErrBadOption. A zero Ref, and one that comes twice, is ErrInvalidRef where Wait comes upon it: it looks
// no further than the n-th that has settled.
func Wait[T any](ctx context.Context, refs []Ref[T], n int) (ready, rest []Ref[T], err error) {
	if n < 0 {
		return nil, refs, fmt.Errorf("%w: Wait for %d references: give 0 or more", ErrBadOption, n)
	}
	n = min(n, len(refs))
	t, own, err := TurnOf(ctx)
	if err != nil {
		return nil, refs, err
	}
	k := 0
	for k < n && refs[k].f != nil && refs[k].f.Settled() {
		k++
	}
	if k == n { // many Waits of one over a list look at one each, and copy nothing
		return refs[:k:k], refs[k:len(refs):len(refs)], twice(refs[:k])
	}
	if n == len(refs) { // before any of it runs in place: one that comes twice would end no sooner than the work does
		if err := twice(refs); err != nil {
			return nil, refs, err
		}
	}
	s := &selection[T]{refs: refs, n: n, got: make([]bool, len(refs))}
	err = s.wait(ctx, t, own)
	if bad := twice(s.ready); err == nil || bad != nil {
		err = bad
	}
	rest = make([]Ref[T], 0, len(refs)-len(s.ready))
	for i, r := range refs {
		if !s.got[i] {
			rest = append(rest, r)
		}
	}
	return s.ready, rest, err
}

// selection is what one Wait has found so far.
type selection[T any] struct {
	refs  []Ref[T]
	n     int
	got   []bool // by position in refs
	first int    // all before it are found
	ready []Ref[T]
}

// sweep finds what has settled. It ends at the nth, and at a zero Ref.
func (s *selection[T]) sweep() error {
	for s.first < len(s.refs) && s.got[s.first] {
		s.first++
	}
	for i := s.first; i < len(s.refs) && len(s.ready) < s.n; i++ {
		switch f := s.refs[i].f; {
		case f == nil:
			return fmt.Errorf("%w: refs[%d] is the zero Ref", ErrInvalidRef, i)
		case !s.got[i] && f.Settled():
			s.got[i] = true
			s.ready = append(s.ready, s.refs[i])
		}
	}
	return nil
}

func (s *selection[T]) wait(ctx context.Context, t *Turn, own bool) error {
	for {
		if err := s.sweep(); err != nil || len(s.ready) >= s.n {
			return err
		}
		for s.got[s.first] {
			s.first++
		}
		// Work run in place keeps this goroutine until it is done, so only when all of it is waited for anyway.
		if !own || s.n < len(s.refs) || !s.refs[s.first].f.work.Help(t) {
			break
		}
	}
	open := make([]Ref[T], 0, len(s.refs)-len(s.ready))
	for i, r := range s.refs {
		if !s.got[i] {
			open = append(open, r)
		}
	}
	err := awaitMany(ctx, t, own, open, s.n-len(s.ready))
	if bad := s.sweep(); bad != nil || len(s.ready) >= s.n && !errors.Is(err, ErrInvalidRef) {
		return bad
	}
	return err
}

// twice refuses references of which one comes twice.
func twice[T any](refs []Ref[T]) error {
	if len(refs) < 2 {
		return nil
	}
	seen := make(map[*Future[T]]struct{}, len(refs))
	for _, r := range refs {
		if r.f == nil {
			continue // refused where Wait comes upon it
		}
		if _, has := seen[r.f]; has {
			return comesTwice(&r.f.Core)
		}
		seen[r.f] = struct{}{}
	}
	return nil
}

func comesTwice(c *Core) error {
	return fmt.Errorf("%w: the reference to %s (%s) comes twice: Wait counts each once", ErrInvalidRef, c.work.Name(), c.ID())
}

// counter wakes its parker when need of many futures have settled.
type counter struct {
	*parker
	left    atomic.Int32
	waiters []Waiter
}

// Resolved implements Resolved.
func (k *counter) Resolved(*Waiter) {
	if k.left.Add(-1) == 0 {
		k.wake()
	}
}

func awaitMany[T any](ctx context.Context, t *Turn, own bool, refs []Ref[T], need int) error {
	k := &counter{parker: &parker{poke: make(chan struct{}, 1)}, waiters: make([]Waiter, len(refs))}
	k.left.Store(int32(need))
	cores := make([]*Core, len(refs))
	for i, r := range refs {
		cores[i] = &r.f.Core
	}
	defer func() {
		for i := range k.waiters {
			if c := k.waiters[i].core; c != nil {
				c.Unsubscribe(&k.waiters[i])
			}
		}
	}()
	for i, c := range cores {
		if c.awaitedBy(k) {
			return comesTwice(c)
		}
		if !c.Subscribe(&k.waiters[i], k) && k.left.Add(-1) <= 0 {
			return nil
		}
	}
	return k.park(ctx, t, own, cores, need, func() bool { return k.left.Load() <= 0 })
}
