package core

import (
	"context"
	"iter"
	"reflect"
	"sync"
	"unsafe"
)

// Link is what a reference consists of: one word. It has no methods, which raysys.Ref would have for each type of value:
// functions and methods of Future take what FutureOf returns.
type Link struct{ future *Future }

// Of says that a Link beside it is to a value of T, and has no size.
type Of[T any] [0]*Result[T]

// HandleOf is Of in a Handle.
type HandleOf[T any] [0]*Result[T]

// Ref is the reference of this package. raysys.Ref is the same struct under a name of its own, so either converts to
// the other for nothing.
type Ref[T any] struct {
	Of[T]
	Link
}

// Handle is a Ref that is passed on as a value.
type Handle[T any] struct {
	HandleOf[T]
	Link
}

// FutureOf returns the record behind a reference, nil for the zero reference.
func FutureOf(l Link) *Future { return l.future }

// LinkTo is the reference to c.
func LinkTo(c *Future) Link { return Link{c} }

// RefValue is a Ref or a Handle that lies somewhere. The codec uses it to find and to place the references inside a value
// without knowing their types.
type RefValue struct {
	link *Link
	of   *RefType
}

// RefType is the type of a Ref or a Handle.
type RefType struct {
	*ValueType        // of what it refers to
	IsDependency bool // it is a Ref, which a task waits for
}

// At is the reference of the type at p.
func (t *RefType) At(p unsafe.Pointer) RefValue { return RefValue{(*Link)(p), t} }

// RefFuture returns the record behind the reference, nil for the zero reference.
func (r RefValue) RefFuture() *Future { return r.link.future }

// Type is that of what it refers to.
func (r RefValue) Type() reflect.Type { return r.of.Type }

// SetRefFuture points the reference at c. It fails when c holds another type.
func (r RefValue) SetRefFuture(c *Future) (err error) {
	if c != nil {
		if c, err = c.As(r.of.ValueType); err != nil {
			return err
		}
	}
	r.link.future = c
	return nil
}

// IsDependency is true for a Ref, which a task waits for, and false for a Handle.
func (r RefValue) IsDependency() bool { return r.of.IsDependency }

// SetRefFuture points r at c. It fails when c holds another type.
func SetRefFuture[T any](r *Ref[T], c *Future) error {
	t := RefType{ValueType: TypeOf[T]()}
	return t.At(unsafe.Pointer(r)).SetRefFuture(c)
}

var (
	linkType = reflect.TypeFor[Link]()
	corePath = linkType.PkgPath()
)

// RefTypeOf returns the type of t where that is a Ref or a Handle: a struct of nothing but Of and Link; else nil. A program's
// struct that embeds a Ref is none.
func RefTypeOf(t reflect.Type) *RefType {
	if !IsRef(t) {
		return nil
	}
	of := t.Field(0).Type
	return &RefType{valueTypeOf(of.Elem()), of.Name()[0] == 'O'}
}

// IsRef reports whether RefTypeOf knows t.
func IsRef(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.NumField() != 2 || t.Field(1).Type != linkType || !t.Field(1).Anonymous {
		return false
	}
	of := t.Field(0)
	return of.Anonymous && of.Type.PkgPath() == corePath && of.Type.Kind() == reflect.Array
}

// RefSet is what raysys.RefSet is made of.
type RefSet struct {
	mu    sync.Mutex // guards the rest
	open  []*member
	added int
	loop  *arrivals // nil while none runs
}

// member is one future of a set until the loop has yielded it.
type member struct {
	ref     Link
	index   int
	waiter  Waiter
	loop    *arrivals
	yielded bool // guarded by the set's mu
}

// Resolved implements Resolved.
func (m *member) Resolved(*Waiter) {
	m.loop.put(m)
	m.loop.wake()
}

// Add puts refs into the set.
func (s *RefSet) Add(refs []Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := make([]member, len(refs))
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
func (s *RefSet) AsCompleted(ctx context.Context) iter.Seq2[int, Link] {
	return func(yield func(int, Link) bool) {
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
			m.yielded, m.ref, m.waiter = true, Link{}, Waiter{} // the references that were added with it may stay for long
			s.mu.Unlock()
			if !yield(m.index, ref) {
				return
			}
		}
	}
}

func (s *RefSet) begin() *arrivals {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop != nil {
		panic("raysys: two loops over one RefSet at the same time: give each a set of its own")
	}
	s.loop = &arrivals{parker: &parker{poke: make(chan struct{}, 1)}}
	for _, m := range s.open {
		s.loop.follow(m)
	}
	return s.loop
}

// end takes back what the loop subscribed to.
func (s *RefSet) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loop = nil
	s.compact()
	for i, m := range s.open {
		if c := m.waiter.future; c != nil {
			c.Unsubscribe(&m.waiter)
		}
		s.open[i] = &member{ref: m.ref, index: m.index} // another goroutine may be calling m.Resolved at this moment
	}
}

// compact drops what was yielded; the caller holds mu.
func (s *RefSet) compact() {
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
func (s *RefSet) unsettled() (futures []*Future, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact()
	for _, m := range s.open {
		if c := m.ref.future; c != nil && !c.Settled() {
			futures = append(futures, c)
		}
	}
	return futures, len(s.open)
}

// arrivals is the queue of settled members, in the order they settled.
type arrivals struct {
	*parker
	mu    sync.Mutex // guards the rest
	queue []*member
	grown bool // since the last take
}

// follow has m arrive once it has settled.
func (q *arrivals) follow(m *member) {
	m.loop = q
	if c := m.ref.future; c == nil || !c.Subscribe(&m.waiter, m) {
		q.put(m)
	}
}

func (q *arrivals) put(m *member) {
	q.mu.Lock()
	q.queue = append(q.queue, m)
	q.mu.Unlock()
}

// grow has a loop that waits look at the set again.
func (q *arrivals) grow() {
	q.mu.Lock()
	q.grown = true
	q.mu.Unlock()
	q.wake()
}

func (q *arrivals) take() *member {
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

func (q *arrivals) some() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0 || q.grown
}
