package codec

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// Plan is what the codec knows about one type. It is immutable; PlanOf makes it once.
type Plan struct {
	typ  reflect.Type
	root *node
	// body is the form for values of the whole type that is not CBOR, nil where there is none.
	body body
	// through is set when body belongs to what the type points at.
	through bool
	// nilable is set when a value of the type may be nil, which no body can say: nil travels as CBOR's null.
	nilable bool
	foreign bool // see Foreign
	schema  func() string
	print   func() uint64
}

// node is one type inside a plan.
type node struct {
	shape
	typ      reflect.Type
	sizer    sizer    // nil when a value never holds memory beyond its own
	referrer referrer // nil when no reference can be in it
	body     body     // nil when it travels as CBOR only
	nullable bool     // whether one of its values is written as CBOR's null
}

// shape is how a type travels. Pointers passed to it point at a value of the type.
type shape interface {
	append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error)
	// decode fills in *p, which is zero.
	decode(d *decoder, p unsafe.Pointer) error
	describe(s *schema)
}

// sizer tells the bytes held beyond the value's own, for shapes that can hold any.
type sizer interface {
	size(p unsafe.Pointer, m measure) int
}

// measure is where a sizer stands.
type measure struct {
	depth  int  // of interface values around it
	level  int  // of values in values of their own type
	values *int // of such values, seen so far; nil before the first
}

// referrer visits the references in a value, for shapes that can hold any.
type referrer interface {
	refs(p unsafe.Pointer, visit func(core.RefValue))
}

// plans holds every plan made: reflect.Type -> *Plan. Bad types are not kept, because the registration they lack may
// still come: package variables are set before init functions run.
var plans sync.Map

// PlanOf returns the plan of t, or a *TypeError that says what keeps its values from travelling.
func PlanOf(t reflect.Type) (*Plan, error) {
	if p, ok := plans.Load(t); ok {
		return p.(*Plan), nil
	}
	if t == nil {
		return nil, &TypeError{Reason: "a nil interface has no type: pass a typed value"}
	}
	b := builder{done: map[reflect.Type]*node{}, open: map[reflect.Type]*knot{}}
	if t.Name() != "" {
		b.path = append(b.path, rootName(t))
	}
	root, err := b.node(t)
	if err != nil {
		err.Type = t
		return nil, err
	}
	p := &Plan{typ: t, root: root, body: root.body, foreign: b.foreign}
	if ptr, ok := root.shape.(*pointer); ok && !ptr.elem.nullable && ptr.elem.body != nil {
		p.body, p.through = ptr.elem.body, true
	}
	p.nilable = t.Kind() == reflect.Slice && root.nullable || p.through
	p.schema = sync.OnceValue(func() string { return schemaOf(root) })
	p.print = sync.OnceValue(func() uint64 { return fnv1a(p.schema()) })
	kept, _ := plans.LoadOrStore(t, p)
	return kept.(*Plan), nil
}

// Type returns the type the plan is for.
func (p *Plan) Type() reflect.Type { return p.typ }

// Foreign reports whether a value may be decoded by code of the program: by a type's own method, which may wait.
func (p *Plan) Foreign() bool { return p.foreign }

// HasRefs reports whether a value can hold references that the runtime must see.
func (p *Plan) HasRefs() bool { return p.root.referrer != nil }

// Refs calls visit for every reference in v, zero ones included, in the order of the encoding. The visitor may point
// them elsewhere. v must be addressable, or hold its references behind pointers and slices, for that to reach v.
func (p *Plan) Refs(v reflect.Value, visit func(core.RefValue)) {
	if p.root.referrer != nil {
		p.root.referrer.refs(p.pointer(v), visit)
	}
}

// RefsAt is Refs for the value at v, which has the type of the plan.
func (p *Plan) RefsAt(v unsafe.Pointer, visit func(core.RefValue)) {
	if p.root.referrer != nil {
		p.root.referrer.refs(v, visit)
	}
}

// Fixed reports whether Size is zero for every value.
func (p *Plan) Fixed() bool { return p.root.sizer == nil }

// Size returns the bytes v holds beyond its own: behind slices, strings, maps, pointers and interfaces. Memory that is
// shared counts once per way to it; what a reference points at and what a type with its own marshaling methods hides
// does not count.
func (p *Plan) Size(v reflect.Value) int {
	if p.root.sizer == nil {
		return 0
	}
	return p.root.sizer.size(p.pointer(v), measure{})
}

// SizeAt is Size for the value at v, which has the type of the plan.
func (p *Plan) SizeAt(v unsafe.Pointer) int {
	if p.root.sizer == nil {
		return 0
	}
	return p.root.sizer.size(v, measure{})
}

// pointer returns the address of v, or of a copy where v has none.
func (p *Plan) pointer(v reflect.Value) unsafe.Pointer {
	p.check(v.Type())
	if v.CanAddr() {
		return v.Addr().UnsafePointer()
	}
	c := reflect.New(p.typ)
	c.Elem().Set(v)
	return c.UnsafePointer()
}

func (p *Plan) check(t reflect.Type) {
	if t != p.typ {
		panic("codec: a plan for " + p.typ.String() + " was given a " + t.String())
	}
}
