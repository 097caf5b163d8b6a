package core

import (
	"errors"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// Result is a Future with its value, the record behind a Ref: tasks and grains embed it at the start of theirs. It has no
// methods (see ValueType), and its Future is a plain field, whose methods the compiler need not wrap for each type.
type Result[T any] struct {
	Future Future
	val    T
}

// ValueAt is the memory of the value of c, the Future of a Result[T]: a *T. Only the goroutine that started the work may write
// there, before it calls Resolve.
func (c *Future) ValueAt() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(c), unsafe.Sizeof(*c)) }

// Resolve settles the future with v; see Future.Resolve.
func Resolve[T any](f *Result[T], v T) bool {
	f.val = v
	return f.Future.Resolve()
}

// Resolve settles the future with the value that is in place, and reports whether it was first. Only the goroutine that
// started the work may call it.
func (c *Future) Resolve() bool {
	if c.word.Load()&flagGated != 0 && c.up != nil && c.up.job.Objects != nil {
		return c.resolvedKept()
	}
	return c.ResolvePassing()
}

// ResolvePassing is Resolve for a value that is on its way to another node: this node's store does not learn of it, however large
// it is.
func (c *Future) ResolvePassing() bool {
	if c.settle(phaseReady) {
		return true
	}
	c.Forget() // cancelled meanwhile: the value is read in phase ready only
	return false
}

// Here reports whether c is ready and ValueAt has its value, for work that no other goroutine can release or evict; false
// when it is not here, or not so simple: Outcome tells.
func (c *Future) Here() bool {
	return c.word.Load()&(phaseMask|flagReleased|flagAbsent|flagKept) == phaseReady
}

// RefTo returns the reference to hand out.
func RefTo[T any](f *Result[T]) Ref[T] { return Ref[T]{Link: Link{&f.Future}} }

// plainly reports whether c is ready with a value that is here and can be read without a lock.
func (c *Future) plainly() bool {
	return c.word.Load()&(phaseMask|flagGated|flagReleased|flagAbsent) == phaseReady
}

// beginRead begins to read the value of a settled future: mu is locked for as long as one is copied that holds pointers. from is the
// future that brings a value which is elsewhere. t is the turn that reads, which may hold a pin.
func (c *Future) beginRead(t *Turn) (locked bool, from *Future, err error) {
	if c.plainly() {
		return false, nil, nil
	}
	if c.word.Load()&phaseMask != phaseReady {
		return false, nil, c.Failure()
	}
	c.mu.Lock()
	w := c.word.Load()
	switch {
	case w&phaseMask == phaseReleased, w&flagReleased != 0 && (t == nil || !t.pinned(c)):
		err = ErrReleased
	case w&flagAbsent != 0:
		from = c.fetchLocked().future
	default:
		return true, nil, nil
	}
	c.mu.Unlock()
	return false, from, err
}

// pin keeps the value readable for a dependant although the program releases it; unpin ends that.
func (c *Future) pin() {
	c.mu.Lock()
	c.pins++
	c.mu.Unlock()
}

func (c *Future) unpin() {
	c.mu.Lock()
	c.pins--
	freed := c.dropLocked()
	c.mu.Unlock()
	c.dropped(freed)
}

// dropLocked frees the value once it is released and has no pin, and reports whether Objects.Drop is to be called.
func (c *Future) dropLocked() (kept bool) {
	w := c.word.Load()
	if c.pins > 0 || w&flagReleased == 0 || w&phaseMask != phaseReady {
		return false
	}
	if !c.move(phaseReady, phaseReleased) {
		return false
	}
	if c.absenceLocked() != nil {
		c.waiters = nil // and with it the source, which releases the object
	}
	if t := c.own.Load(); t != nil {
		t.recipe.Store(nil)
	}
	if w&flagGated != 0 { // readers of an ungated value take no lock, and there is nothing to free
		c.Forget()
	}
	return w&flagKept != 0
}

func (c *Future) release() {
	c.mu.Lock()
	c.word.Or(flagReleased)
	freed := c.dropLocked()
	c.mu.Unlock()
	c.dropped(freed)
}

// Forget drops the value: nothing reads it any more, or shall.
func (c *Future) Forget() {
	if t := c.valueType(); t != nil {
		c.value(t).SetZero()
	}
}

// copyOf returns a *T to a copy of the value, which may be forgotten at any moment; nil when it was.
func (c *Future) copyOf(t *ValueType) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.word.Load()&(phaseMask|flagAbsent) != phaseReady {
		return nil
	}
	v := reflect.New(t.Type)
	v.Elem().Set(c.value(t))
	return v.Interface()
}

// failure is the outcome of a future that did not become ready.
type failure struct {
	err   error
	phase uint32
	seen  atomic.Bool // err was read
}

// failurePhase says how a future that ends with err has ended.
func failurePhase(err error) (phase uint32) {
	defer func() {
		if recover() != nil { // a method of err: the future has to settle
			phase = phaseFailed
		}
	}()
	switch {
	case ownFailure(err): // also where its cause is that something else was cancelled or lost
		return phaseFailed
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrClosed):
		return phaseCancelled
	case errors.Is(err, ErrObjectLost):
		return phaseLost
	}
	return phaseFailed
}

func ownFailure(err error) bool {
	own, ok := err.(interface{ Is(error) bool })
	return ok && own.Is(ErrOwnFailure)
}
