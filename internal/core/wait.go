package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// GetAll waits for all refs and tells each one's outcome.
func GetAll[T any, R ~struct{ Link[T] }](ctx context.Context, refs []R, tell func(i int, v T, err error)) {
	for _, r := range refs { // of other nodes: their answers have what is small, and say where the rest is
		if f := futureOf(r); f != nil && !f.Future.Settled() {
			if w, ok := f.Future.work.(lazy); ok {
				w.wanted()
			}
		}
	}
	for i, r := range refs {
		if f := futureOf(r); f != nil && f.Future.Absent() {
			for _, next := range refs[i:min(i+fetchAhead, len(refs))] {
				prefetch(futureOf(next))
			}
		}
		v, err := Ref[T](r).Get(ctx)
		tell(i, v, err)
	}
}

// futureOf returns what r refers to, nil for the zero reference. Lists of references stay what they are to the program,
// so that nothing copies them.
func futureOf[T any, R ~struct{ Link[T] }](r R) *Result[T] { return Ref[T](r).f }

// fetchAhead is how many values that are elsewhere come at the same time.
const fetchAhead = 8

// prefetch has the value come if it is elsewhere: a Get follows.
func prefetch[T any](f *Result[T]) {
	if f == nil || !f.Future.Absent() {
		return
	}
	if c := f.fetching(); c != nil {
		if w, ok := c.work.(lazy); ok {
			w.wanted()
		}
	}
}

// Wait is raysys.Wait.
func Wait[T any, R ~struct{ Link[T] }](ctx context.Context, refs []R, n int) (ready, rest []R, err error) {
	if n < 0 {
		return nil, refs, fmt.Errorf("%w: Wait for %d references: give 0 or more", ErrBadOption, n)
	}
	n = min(n, len(refs))
	t, own, err := TurnOf(ctx)
	if err != nil {
		return nil, refs, err
	}
	k := 0
	for k < n && settled(futureOf(refs[k])) {
		k++
	}
	if k == n { // many Waits of one over a list look at one each, and copy nothing
		return refs[:k:k], refs[k:len(refs):len(refs)], twice[T](refs[:k])
	}
	if n == len(refs) { // before any of it runs in place: one that comes twice would end no sooner than the work does
		if err := twice[T](refs); err != nil {
			return nil, refs, err
		}
	}
	s := &selection[T, R]{refs: refs, n: n, got: make([]bool, len(refs))}
	err = s.wait(ctx, t, own)
	if bad := twice[T](s.ready); err == nil || bad != nil {
		err = bad
	}
	rest = make([]R, 0, len(refs)-len(s.ready))
	for i, r := range refs {
		if !s.got[i] {
			rest = append(rest, r)
		}
	}
	return s.ready, rest, err
}

func settled[T any](f *Result[T]) bool { return f != nil && f.Future.Settled() }

// selection is what one Wait has found so far.
type selection[T any, R ~struct{ Link[T] }] struct {
	refs  []R
	n     int
	got   []bool // by position in refs
	first int    // all before it are found
	ready []R
}

// sweep finds what has settled. It ends at the nth, and at a zero Ref.
func (s *selection[T, R]) sweep() error {
	for s.first < len(s.refs) && s.got[s.first] {
		s.first++
	}
	for i := s.first; i < len(s.refs) && len(s.ready) < s.n; i++ {
		switch f := futureOf(s.refs[i]); {
		case f == nil:
			return fmt.Errorf("%w: refs[%d] is the zero Ref", ErrInvalidRef, i)
		case !s.got[i] && f.Future.Settled():
			s.got[i] = true
			s.ready = append(s.ready, s.refs[i])
		}
	}
	return nil
}

func (s *selection[T, R]) wait(ctx context.Context, t *Turn, own bool) error {
	for {
		if err := s.sweep(); err != nil || len(s.ready) >= s.n {
			return err
		}
		for s.got[s.first] {
			s.first++
		}
		// Work run in place keeps this goroutine until it is done, so only when all of it is waited for anyway.
		if !own || s.n < len(s.refs) || !futureOf(s.refs[s.first]).Future.work.Help(t) {
			break
		}
	}
	open := make([]*Future, 0, len(s.refs)-len(s.ready))
	for i, r := range s.refs {
		if !s.got[i] {
			open = append(open, &futureOf(r).Future)
		}
	}
	err := awaitMany(ctx, t, own, open, s.n-len(s.ready))
	if bad := s.sweep(); bad != nil || len(s.ready) >= s.n && !errors.Is(err, ErrInvalidRef) {
		return bad
	}
	return err
}

// twice refuses references of which one comes twice.
func twice[T any, R ~struct{ Link[T] }](refs []R) error {
	if len(refs) < 2 {
		return nil
	}
	seen := make(map[*Result[T]]struct{}, len(refs))
	for _, r := range refs {
		f := futureOf(r)
		if f == nil {
			continue // refused where Wait comes upon it
		}
		if _, has := seen[f]; has {
			return comesTwice(&f.Future)
		}
		seen[f] = struct{}{}
	}
	return nil
}

func comesTwice(c *Future) error {
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

func awaitMany(ctx context.Context, t *Turn, own bool, futures []*Future, need int) error {
	k := &counter{parker: &parker{poke: make(chan struct{}, 1)}, waiters: make([]Waiter, len(futures))}
	k.left.Store(int32(need))
	defer func() {
		for i := range k.waiters {
			if c := k.waiters[i].future; c != nil {
				c.Unsubscribe(&k.waiters[i])
			}
		}
	}()
	for i, c := range futures {
		if c.awaitedBy(k) {
			return comesTwice(c)
		}
		if !c.Subscribe(&k.waiters[i], k) && k.left.Add(-1) <= 0 {
			return nil
		}
	}
	return k.park(ctx, t, own, futures, need, func() bool { return k.left.Load() <= 0 })
}
