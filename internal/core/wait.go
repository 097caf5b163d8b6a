package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	s := &selection{refs: refs, n: n, at: make([]int, 0, n)}
	err = s.wait(ctx, t, own)
	ready, rest = s.split()
	if bad := twice(ready); err == nil || bad != nil {
		err = bad
	}
	return ready, rest, err
}

// selection is what one Wait has found so far.
type selection struct {
	refs  []Link
	n     int
	at    []int  // positions in refs, as they were found
	got   []bool // by position in refs; nil until a second sweep has to pass over what the first has found
	first int    // all before it are found
}

// sweep finds what has settled. It ends at the nth, and at a zero Ref.
func (s *selection) sweep() error {
	if s.got == nil && len(s.at) > 0 {
		s.got = make([]bool, len(s.refs))
		for _, i := range s.at {
			s.got[i] = true
		}
	}
	for i := s.first; i < len(s.refs) && len(s.at) < s.n; i++ {
		c := s.refs[i].future
		if c == nil {
			return fmt.Errorf("%w: refs[%d] is the zero Ref", ErrInvalidRef, i)
		}
		found := s.got != nil && s.got[i]
		if !found && c.Settled() {
			s.at = append(s.at, i)
			found = true
			if s.got != nil {
				s.got[i] = true
			}
		}
		if found && s.first == i {
			s.first++
		}
	}
	return nil
}

// split returns what was found, as it was, and the rest in the order of refs.
func (s *selection) split() (ready, rest []Link) {
	ready = make([]Link, len(s.at))
	for k, i := range s.at {
		ready[k] = s.refs[i]
	}
	slices.Sort(s.at)
	rest = make([]Link, 0, len(s.refs)-len(s.at))
	from := 0
	for _, i := range s.at {
		rest = append(rest, s.refs[from:i]...)
		from = i + 1
	}
	return ready, append(rest, s.refs[from:]...)
}

func (s *selection) wait(ctx context.Context, t *Turn, own bool) error {
	for {
		if err := s.sweep(); err != nil || len(s.at) >= s.n {
			return err
		}
		// Work run in place keeps this goroutine until it is done, so only when all of it is waited for anyway.
		if !own || s.n < len(s.refs) || !s.refs[s.first].future.work.Help(t) {
			break
		}
	}
	_, open := s.split()
	futures := unsafe.Slice((**Future)(unsafe.Pointer(unsafe.SliceData(open))), len(open)) // a Link is one word
	err := awaitMany(ctx, t, own, futures, s.n-len(s.at))
	if bad := s.sweep(); bad != nil || len(s.at) >= s.n && !errors.Is(err, ErrInvalidRef) {
		return bad
	}
	return err
}

// twice refuses a list that has a reference twice.
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

// Waiter is one subscription to a future. It is embedded in what waits.
type Waiter struct {
	next   *Waiter
	future *Future
	to     Resolved
	alarm  Alarm
	length uint32 // of the list of its future while it is the first there; it may be less than that
	lapsed uint32 // of those in the list that wait no more
}

// Resolved is called once when a future settles, on the goroutine that settled it; it must not block.
type Resolved interface{ Resolved(w *Waiter) }

// Lapsing is a Resolved that may stop waiting before the future settles. It calls Lapse of the future then.
type Lapsing interface {
	Resolved
	// Lapsed reports whether it waits no more.
	Lapsed() bool
	// Swept is called once the future has let go of it: Resolved is not called any more. It must not block.
	Swept()
}

// minSwept is from how many waiters on a list is swept.
const minSwept = 16

// Future returns the future that w subscribed to.
func (w *Waiter) Future() *Future { return w.future }

// Window is what raysys.Window is made of.
type Window struct {
	set  RefSet
	open int
	said bool // an error was returned
}

// Add puts l into the window, and waits while more than most are in it.
func (w *Window) Add(ctx context.Context, l Link, most int) error {
	if FutureOf(l) == nil {
		return ErrInvalidRef
	}
	if _, _, err := TurnOf(ctx); err != nil {
		return err
	}
	w.set.Add([]Link{l})
	w.open++
	return w.Drain(ctx, max(most, 1))
}

// Drain waits while more than most are in the window.
func (w *Window) Drain(ctx context.Context, most int) error {
	var first error
	for w.open > most {
		ended := true
		for _, l := range w.set.AsCompleted(ctx) {
			ended = false
			w.open--
			if err := FutureOf(l).Failure(); err != nil && !w.said {
				w.said, first = true, err
			}
			break
		}
		if ended {
			if _, _, err := TurnOf(ctx); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}
	return first
}
