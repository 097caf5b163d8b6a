package core

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Links is the list of the links of references, and refs one of links as references of R: in the same memory, since both are one word.
func Links[T any, R ~struct {
	Of[T]
	Link
}](list []R) []Link {
	return unsafe.Slice((*Link)(unsafe.Pointer(unsafe.SliceData(list))), len(list))
}

func refs[T any, R ~struct {
	Of[T]
	Link
}](list []Link) []R {
	return unsafe.Slice((*R)(unsafe.Pointer(unsafe.SliceData(list))), cap(list))[:len(list)]
}

// GetAll waits for all refs and tells each one's outcome.
func GetAll[T any, R ~struct {
	Of[T]
	Link
}](ctx context.Context, refs []R, tell func(i int, v T, err error)) {
	list := Links[T](refs)
	ask(list)
	for i, r := range refs {
		ahead(list[i:])
		v, err := Get(ctx, Ref[T](r))
		tell(i, v, err)
	}
}

// ask asks for what other nodes have: their answers have what is small, and say where the rest is.
func ask(list []Link) {
	for _, l := range list {
		if c := l.future; c != nil && !c.Settled() {
			if w, ok := c.work.(lazy); ok {
				w.wanted()
			}
		}
	}
}

// fetchAhead is how many values that are elsewhere come at the same time.
const fetchAhead = 8

// ahead has the first values of the list come if the first is elsewhere: a Get of each follows.
func ahead(list []Link) {
	if c := list[0].future; c == nil || !c.Absent() {
		return
	}
	for _, l := range list[:min(fetchAhead, len(list))] {
		if l.future == nil || !l.future.Absent() {
			continue
		}
		if c := l.future.fetching(); c != nil {
			if w, ok := c.work.(lazy); ok {
				w.wanted()
			}
		}
	}
}

// Wait is raysys.Wait.
func Wait[T any, R ~struct {
	Of[T]
	Link
}](ctx context.Context, list []R, n int) (ready, rest []R, err error) {
	some, others, err := wait(ctx, Links[T](list), n)
	return refs[T, R](some), refs[T, R](others), err
}

func wait(ctx context.Context, refs []Link, n int) (ready, rest []Link, err error) {
	if n < 0 {
		return nil, refs, fmt.Errorf("%w: Wait for %d references: give 0 or more", ErrBadOption, n)
	}
	n = min(n, len(refs))
	t, own, err := TurnOf(ctx)
	if err != nil {
		return nil, refs, err
	}
	k := 0
	for k < n && refs[k].future != nil && refs[k].future.Settled() {
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
	s := &selection{refs: refs, n: n, got: make([]bool, len(refs))}
	err = s.wait(ctx, t, own)
	if bad := twice(s.ready); err == nil || bad != nil {
		err = bad
	}
	rest = make([]Link, 0, len(refs)-len(s.ready))
	for i, r := range refs {
		if !s.got[i] {
			rest = append(rest, r)
		}
	}
	return s.ready, rest, err
}

// selection is what one Wait has found so far.
type selection struct {
	refs  []Link
	n     int
	got   []bool // by position in refs
	first int    // all before it are found
	ready []Link
}

// sweep finds what has settled. It ends at the nth, and at a zero Ref.
func (s *selection) sweep() error {
	for s.first < len(s.refs) && s.got[s.first] {
		s.first++
	}
	for i := s.first; i < len(s.refs) && len(s.ready) < s.n; i++ {
		switch c := s.refs[i].future; {
		case c == nil:
			return fmt.Errorf("%w: refs[%d] is the zero Ref", ErrInvalidRef, i)
		case !s.got[i] && c.Settled():
			s.got[i] = true
			s.ready = append(s.ready, s.refs[i])
		}
	}
	return nil
}

func (s *selection) wait(ctx context.Context, t *Turn, own bool) error {
	for {
		if err := s.sweep(); err != nil || len(s.ready) >= s.n {
			return err
		}
		for s.got[s.first] {
			s.first++
		}
		// Work run in place keeps this goroutine until it is done, so only when all of it is waited for anyway.
		if !own || s.n < len(s.refs) || !s.refs[s.first].future.work.Help(t) {
			break
		}
	}
	open := make([]*Future, 0, len(s.refs)-len(s.ready))
	for i, r := range s.refs {
		if !s.got[i] {
			open = append(open, r.future)
		}
	}
	err := awaitMany(ctx, t, own, open, s.n-len(s.ready))
	if bad := s.sweep(); bad != nil || len(s.ready) >= s.n && !errors.Is(err, ErrInvalidRef) {
		return bad
	}
	return err
}

// twice refuses references of which one comes twice.
func twice(refs []Link) error {
	if len(refs) < 2 {
		return nil
	}
	seen := make(map[*Future]struct{}, len(refs))
	for _, r := range refs {
		c := r.future
		if c == nil {
			continue // refused where Wait comes upon it
		}
		if _, has := seen[c]; has {
			return comesTwice(c)
		}
		seen[c] = struct{}{}
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
		open, again := c.subscribe(&k.waiters[i], k, k)
		if again {
			return comesTwice(c)
		}
		if !open && k.left.Add(-1) <= 0 {
			return nil
		}
	}
	return k.park(ctx, t, own, futures, need, func() bool { return k.left.Load() <= 0 })
}
