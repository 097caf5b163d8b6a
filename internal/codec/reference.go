package codec

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// holdsRef reports whether a value of t can have a reference in it, wherever the field is and whether or not it could
// travel.
func holdsRef(t reflect.Type, seen map[reflect.Type]bool) bool {
	if core.IsRef(t) {
		return true
	}
	return hidesRef(t, seen)
}

// hidesRef is holdsRef for what is inside t.
func hidesRef(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
		return holdsRef(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("raysys") != "-" && holdsRef(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// reference is null, or twice its position in the side list, plus one for a dependency.
type reference struct{ typ *core.RefType }

func refNode(t reflect.Type) *node {
	r := &reference{core.RefTypeOf(t)}
	return &node{shape: r, referrer: r, nullable: true}
}

func (r *reference) value(p unsafe.Pointer) core.RefValue { return r.typ.At(p) }

func (r *reference) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	future := r.value(p).RefFuture()
	if future == nil {
		return append(dst, cborNull), nil
	}
	if e.refs == nil {
		return nil, unencodable(nil, "a reference cannot be kept here: pass the value behind it")
	}
	at := uint64(len(*e.refs)) << 1
	if r.typ.IsDependency {
		at |= 1
	}
	*e.refs = append(*e.refs, future)
	return appendHead(dst, majorUint, at), nil
}

func (r *reference) decode(d *decoder, p unsafe.Pointer) error {
	if d.null() {
		return nil
	}
	start := d.off
	at, err := d.expect(majorUint, "a reference")
	if err != nil {
		return err
	}
	switch {
	case at&1 == 1 != r.typ.IsDependency:
		err = d.fail("a Ref and a Handle are not the same: the sender has another type here")
	case at>>1 >= uint64(len(d.refs)) || d.refs[at>>1] == nil:
		fail := d.fail("reference %d is not among the %d that came along", at>>1, len(d.refs))
		fail.Err, err = ErrNoReference, fail
	default:
		if cause := r.value(p).SetRefFuture(d.refs[at>>1]); cause != nil {
			fail := d.fail("reference %d holds another type", at>>1)
			fail.Err, err = cause, fail
		}
	}
	if err != nil {
		err.(*DecodeError).Offset = start
	}
	return err
}

func (r *reference) refs(p unsafe.Pointer, visit func(core.RefValue)) { visit(r.value(p)) }

func (r *reference) describe(s *schema) {
	if r.typ.IsDependency {
		s.write("ref(")
	} else {
		s.write("handle(")
	}
	s.target(r.typ.Type)
	s.write(")")
}
