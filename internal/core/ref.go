package core

import (
	"fmt"
	"reflect"
)

// Link is what a reference consists of: one word. The codec's methods sit here, so that raysys.Ref, whose type is made
// of a Link, has them without showing them.
type Link[T any] struct{ f *Result[T] }

// Ref is the reference of this package. raysys.Ref is the same struct under a name of its own, so either converts to
// the other for nothing. It has the methods that engines need; those of a program are the root's.
type Ref[T any] struct{ Link[T] }

// HandleLink is the Link of a Handle.
type HandleLink[T any] struct{ link Link[T] }

// Handle is a Ref that is passed on as a value.
type Handle[T any] struct{ HandleLink[T] }

// RefValue is implemented by pointers to Refs and Handles. The codec uses it to find and to place the references inside
// a value without knowing T.
type RefValue interface {
	// RefFuture returns the record behind the reference, nil for the zero reference.
	RefFuture() *Future
	// SetRefFuture points the reference at c. It fails when c holds another type than T.
	SetRefFuture(c *Future) error
	// IsDependency is true for a Ref, which a task waits for, and false for a Handle.
	IsDependency() bool
}

var (
	refValue = reflect.TypeFor[RefValue]()
	corePath = reflect.TypeFor[Future]().PkgPath()
)

// IsRef reports whether t is a Ref or a Handle: a struct of nothing but a link. A program's struct that embeds a Ref
// has its methods too, and is none.
func IsRef(t reflect.Type) bool {
	link, ok := only(t)
	if !ok || link.PkgPath() != corePath || !reflect.PointerTo(link).Implements(refValue) {
		return false
	}
	_, deeper := only(link) // it is this package's own Ref that is embedded
	return !deeper
}

// only returns the type of the one field of t, which is embedded.
func only(t reflect.Type) (embedded reflect.Type, ok bool) {
	if t.Kind() != reflect.Struct || t.NumField() != 1 || !t.Field(0).Anonymous {
		return nil, false
	}
	return t.Field(0).Type, true
}

// RefFuture implements RefValue.
func (l *Link[T]) RefFuture() *Future {
	if l.f == nil {
		return nil
	}
	return &l.f.Future
}

// SetRefFuture implements RefValue.
func (l *Link[T]) SetRefFuture(c *Future) error {
	if c == nil {
		l.f = nil
		return nil
	}
	if u, ok := c.work.(untypedWork); ok {
		got, err := adopt[T](u.f)
		if err == nil {
			l.f = got
		}
		return err
	}
	src, ok := c.holder()
	if ok {
		if f, same := src.self().(*Result[T]); same {
			l.f = f
			return nil
		}
	}
	return fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, reflect.TypeFor[T]())
}

// IsDependency implements RefValue.
func (*Link[T]) IsDependency() bool { return true }

// RefFuture implements RefValue.
func (h *HandleLink[T]) RefFuture() *Future { return h.link.RefFuture() }

// SetRefFuture implements RefValue.
func (h *HandleLink[T]) SetRefFuture(c *Future) error { return h.link.SetRefFuture(c) }

// IsDependency implements RefValue.
func (*HandleLink[T]) IsDependency() bool { return false }

// Handle returns r as a value to pass on.
func (r Ref[T]) Handle() Handle[T] { return Handle[T]{HandleLink[T]{r.Link}} }

// Ref returns the reference that h carries.
func (h Handle[T]) Ref() Ref[T] { return Ref[T]{h.link} }

// ID returns the id of the submission that produces the value; zero for Ready values.
func (r Ref[T]) ID() TaskID {
	if r.f == nil {
		return TaskID{}
	}
	return r.f.Future.ID()
}

// IsZero reports whether r refers to nothing.
func (r Ref[T]) IsZero() bool { return r.f == nil }

// Settled reports whether the future has its outcome.
func (r Ref[T]) Settled() bool { return r.f.Future.Settled() }

// Cancel ends the work behind r, and reports whether the future was still open.
func (r Ref[T]) Cancel() bool { return r.f != nil && r.f.Future.Cancel(ErrCancelled) }

// Release says that the program needs the value no longer.
func (r Ref[T]) Release() {
	if r.f != nil {
		r.f.release()
	}
}

// Borrow keeps the value behind r readable until Return: a submission by reference borrows at once, so that the program
// may release the reference right after. t is the turn that submits: one that holds a pin may lend a released value on.
func (r Ref[T]) Borrow(t *Turn) error {
	f := r.f
	f.Future.mu.Lock()
	defer f.Future.mu.Unlock()
	if w := f.Future.word.Load(); w&flagReleased != 0 && (w&phaseMask == phaseReleased || !t.pinned(&f.Future)) {
		return ErrReleased
	}
	f.Future.pins++
	return nil
}

// Peek returns the outcome of a settled future that was borrowed; here is false when its value is elsewhere, even if it
// was here a moment ago: see Future.Follow.
func (r Ref[T]) Peek() (v T, here bool, err error) {
	f := r.f
	if at := f.Future.at(); at != &f.Future {
		if h, ok := at.holder(); ok {
			if g, ok := h.self().(*Result[T]); ok {
				return Ref[T]{Link[T]{g}}.Peek()
			}
		}
		return v, true, fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, reflect.TypeFor[T]())
	}
	if err := f.Future.Failure(); err != nil {
		return v, true, err
	}
	f.Future.mu.Lock()
	defer f.Future.mu.Unlock()
	if f.Future.word.Load()&(phaseMask|flagAbsent) != phaseReady {
		return v, false, nil
	}
	return f.val, true, nil
}

// Return ends a Borrow.
func (r Ref[T]) Return() { r.f.unpin() }
