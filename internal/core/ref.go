package core

import (
	"fmt"
	"reflect"
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

// As returns c, or the future that stands for it, where that is in a Result of t.
func (c *Future) As(t *ValueType) (*Future, error) {
	if u, ok := c.work.(untypedWork); ok {
		return u.f.adopt(t)
	}
	if c.valueType() != t {
		return nil, fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, t.Type)
	}
	return c, nil
}

// Release says that the program needs the value of c, which may be nil, no longer.
func (c *Future) Release() {
	if c != nil {
		c.release()
	}
}

// Borrow keeps the value of c readable until Return: a submission by reference borrows at once, so that the program
// may release the reference right after. t is the turn that submits: one that holds a pin may lend a released value on.
func (c *Future) Borrow(t *Turn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.word.Load(); w&flagReleased != 0 && (w&phaseMask == phaseReleased || !t.pinned(c)) {
		return ErrReleased
	}
	c.pins++
	return nil
}

// Return ends a Borrow.
func (c *Future) Return() { c.unpin() }

// PeekInto puts the value of a settled future that was borrowed, one of t, at p; here is false when it is elsewhere, even if it was here
// a moment ago: see Future.Follow.
func (c *Future) PeekInto(t *ValueType, p unsafe.Pointer) (here bool, err error) {
	at, here, err := c.peek(t)
	if at != nil {
		t.At(p).Set(at.value(t))
		at.mu.Unlock()
	}
	return here, err
}

// peek is PeekInto, but for the value, which is that of at, whose mu is locked.
func (c *Future) peek(t *ValueType) (at *Future, here bool, err error) {
	if to := c.at(); to != c {
		if to.valueType() != t {
			return nil, true, fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, t.Type)
		}
		c = to
	}
	if err := c.Failure(); err != nil {
		return nil, true, err
	}
	c.mu.Lock()
	if c.word.Load()&(phaseMask|flagAbsent) != phaseReady {
		c.mu.Unlock()
		return nil, false, nil
	}
	return c, true, nil
}
