package raysys

import (
	"context"
	"fmt"
	"iter"
	"sync"
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

// Wait returns when n of refs have settled, ready or failed, or when ctx ends; its deadline is the time limit. It
// reorders refs in place: ready is the front, the settled ones in the order they were found, rest the others. When
// ctx ends first, ready holds what there is and err says why. n above len(refs) waits for all.
func Wait[T any](ctx context.Context, refs []Ref[T], n int) (ready, rest []Ref[T], err error) {
	n = min(n, len(refs))
	t, own, err := TurnOf(ctx)
	if err != nil {
		return nil, refs, err
	}
	found, zero := 0, -1
	// A sweep ends at the nth settled one, so that many Waits of one over a list do not look at all of it each time.
	sweep := func() {
		for i := found; i < len(refs) && found < n; i++ {
			switch f := refs[i].f; {
			case f == nil:
				zero = i
				return
			case f.Settled():
				refs[found], refs[i] = refs[i], refs[found]
				found++
			}
		}
	}
	for {
		sweep()
		if found >= n {
			return refs[:found], refs[found:], nil
		}
		if zero >= 0 {
			return refs[:found], refs[found:], fmt.Errorf("%w: refs[%d] is the zero Ref", ErrInvalidRef, zero)
		}
		// Work run in place keeps this goroutine until it is done, so only when all of it is waited for anyway.
		if !own || n < len(refs) || !refs[found].f.work.Help(t) {
			break
		}
	}
	err = awaitMany(ctx, t, own, refs[found:], n-found)
	sweep()
	if found >= n {
		err = nil
	}
	return refs[:found], refs[found:], err
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
		if !c.Subscribe(&k.waiters[i], k) && k.left.Add(-1) <= 0 {
			return nil
		}
	}
	return k.park(ctx, t, own, cores, need, func() bool { return k.left.Load() <= 0 })
}

// AsCompleted yields the index and the ref of each future as it settles, first come first. It ends after the last one,
// or when ctx ends, which the caller sees in ctx.Err(). Leaving the loop early costs nothing.
func AsCompleted[T any](ctx context.Context, refs []Ref[T]) iter.Seq2[int, Ref[T]] {
	return func(yield func(int, Ref[T]) bool) {
		t, own, err := TurnOf(ctx)
		if err != nil {
			return
		}
		q := &arrivals{parker: &parker{poke: make(chan struct{}, 1)}, waiters: make([]Waiter, len(refs))}
		cores := make([]*Core, 0, len(refs))
		defer func() {
			for i := range q.waiters {
				if c := q.waiters[i].core; c != nil {
					c.Unsubscribe(&q.waiters[i])
				}
			}
		}()
		for i, r := range refs {
			q.waiters[i].Index = i
			if r.f == nil || !r.f.Subscribe(&q.waiters[i], q) {
				q.put(i)
			}
			if r.f != nil {
				cores = append(cores, &r.f.Core)
			}
		}
		for range refs {
			i, ok := q.take()
			for !ok {
				// A parker of its own for each wait: the scopes watched before may still be about to poke.
				p := &parker{poke: q.poke}
				if open := openOf(cores); len(open) > 0 && p.park(ctx, t, own, open, 1, q.some) != nil {
					return
				}
				i, ok = q.take()
			}
			if !yield(i, refs[i]) {
				return
			}
		}
	}
}

func openOf(cores []*Core) (open []*Core) {
	for _, c := range cores {
		if !c.Settled() {
			open = append(open, c)
		}
	}
	return open
}

// arrivals is the queue of settled indices, in the order they settled.
type arrivals struct {
	*parker
	waiters []Waiter
	mu      sync.Mutex // guards queue
	queue   []int
}

// Resolved implements Resolved.
func (q *arrivals) Resolved(w *Waiter) {
	q.put(w.Index)
	q.wake()
}

func (q *arrivals) put(i int) {
	q.mu.Lock()
	q.queue = append(q.queue, i)
	q.mu.Unlock()
}

func (q *arrivals) take() (int, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return 0, false
	}
	i := q.queue[0]
	q.queue = q.queue[1:]
	return i, true
}

func (q *arrivals) some() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0
}
