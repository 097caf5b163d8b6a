package codec

import (
	"reflect"
	"slices"
	"strings"

	"github.com/raysys/raysys/internal/core"
)

// builder makes the nodes of one plan, and keeps the path for the error.
type builder struct {
	done map[reflect.Type]*node
	open map[reflect.Type]*knot // being built: meeting one again is recursion
	path []string

	foreign bool // of the Plan
}

// bad is a TypeError at the builder's place; PlanOf fills in the type.
func (b *builder) bad(reason string) *TypeError {
	return &TypeError{Path: strings.Join(b.path, ""), Reason: reason}
}

// under builds the node of t one step further down the path.
func (b *builder) under(step string, t reflect.Type) (*node, *TypeError) {
	b.path = append(b.path, step)
	n, err := b.node(t)
	b.path = b.path[:len(b.path)-1]
	return n, err
}

func (b *builder) node(t reflect.Type) (*node, *TypeError) {
	if n := b.done[t]; n != nil {
		return n, nil
	}
	if k := b.open[t]; k != nil {
		if holdsRef(t, map[reflect.Type]bool{}) {
			return nil, b.bad(display(t) + " contains itself and a reference: hold a raysys.Ref to the next value, or the references in a slice beside it, instead")
		}
		return k.innerNode(t), nil
	}
	k := &knot{}
	b.open[t] = k
	n, err := b.make(t)
	delete(b.open, t)
	if err != nil {
		return nil, err
	}
	n.typ = t
	k.tie(n)
	b.done[t] = n
	return n, nil
}

// knownPackages have types that decode themselves at once.
var knownPackages = []string{"time", "math/big", "net/netip", "net/url"}

func (b *builder) make(t reflect.Type) (*node, *TypeError) {
	if core.IsRef(t) {
		return refNode(t), nil
	}
	if l := leafOf(t); l != nil {
		b.foreign = b.foreign || l.body.form() != formProto && !slices.Contains(knownPackages, t.PkgPath())
		if hidesRef(t, map[reflect.Type]bool{}) {
			return nil, b.bad(display(t) + " encodes itself, and would hide the reference it holds: take the reference out of it")
		}
		return l, nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return b.sequence(t)
	case reflect.Struct:
		return b.record(t)
	case reflect.Map:
		return b.table(t)
	case reflect.Pointer:
		elem, err := b.node(t.Elem())
		if err != nil {
			return nil, err
		}
		return pointerNode(elem), nil
	case reflect.Interface:
		name, ok := core.RegisteredName(t)
		if !ok && t == anyType {
			name, ok = "any", true
		}
		if !ok {
			return nil, b.bad("the interface type " + display(t) + " is not registered: call raysys.Register[" + display(t) + "](name), and register the types that stand in it, or use a concrete type")
		}
		b.foreign = true // any type may stand in it
		return unionNode(t, name), nil
	case reflect.Chan:
		return nil, b.bad("a channel cannot travel: pass the values, or tag the field `raysys:\"-\"`")
	case reflect.Func:
		return nil, b.bad("a function cannot travel: define a task or a grain method and call that, or tag the field `raysys:\"-\"`")
	case reflect.UnsafePointer, reflect.Uintptr:
		return nil, b.bad("an address means nothing elsewhere: pass what it points at, or tag the field `raysys:\"-\"`")
	default:
		return scalarNode(t), nil
	}
}

func (b *builder) sequence(t reflect.Type) (*node, *TypeError) {
	if n := segmentNode(t); n != nil {
		return n, nil
	}
	elem, err := b.under("[]", t.Elem())
	if err != nil {
		return nil, err
	}
	if t.Kind() == reflect.Array {
		return arrayNode(t, elem), nil
	}
	return listNode(t, elem), nil
}

func (b *builder) table(t reflect.Type) (*node, *TypeError) {
	key := t.Key()
	if bad, why := unfitKey(key); bad != nil {
		b.path = append(b.path, "[key]")
		return nil, b.bad("a map key of type " + display(bad) + why + ": use a string, integer or bool key, a struct or array of those, or a slice of pairs")
	}
	keyNode, err := b.under("[key]", key)
	if err != nil {
		return nil, err
	}
	elem, err := b.under("[]", t.Elem())
	if err != nil {
		return nil, err
	}
	return tableNode(t, keyNode, elem), nil
}

func (b *builder) record(t reflect.Type) (*node, *TypeError) {
	r := &record{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("raysys")
		if tag == "-" || f.Name == "_" {
			continue // nothing can be read from or written to a blank field
		}
		b.path = append(b.path, "."+f.Name)
		omits := tag == "omitzero"
		switch {
		case tagged && !omits:
			return nil, b.bad("the tag `raysys:\"" + tag + "\"` is unknown: `raysys:\"-\"` leaves the field out, `raysys:\"omitzero\"` while it is zero")
		case !f.IsExported():
			return nil, b.bad(unexported(t, f))
		}
		n, err := b.node(f.Type)
		if err != nil {
			return nil, err
		}
		b.path = b.path[:len(b.path)-1]
		omit := uintptr(0)
		if omits {
			omit = f.Type.Size()
		}
		r.add(f.Name, f.Offset, n, omit)
	}
	return recordNode(r), nil
}

// unexported says why the unexported field f of t is bad, and what to do.
func unexported(t reflect.Type, f reflect.StructField) string {
	if holdsRef(f.Type, map[reflect.Type]bool{}) {
		return "a reference in an unexported field would neither be waited for nor travel: export the field, or tag it `raysys:\"-\"`"
	}
	ptr := reflect.PointerTo(t)
	switch {
	case halfOf(ptr, binaryMarshaler, binaryAppender) && !ptr.Implements(binaryUnmarshaler):
		return "the field is unexported, and " + display(t) + " has MarshalBinary without UnmarshalBinary: add that to *" + display(t)
	case halfOf(ptr, textMarshaler, textAppender) && !ptr.Implements(textUnmarshaler):
		return "the field is unexported, and " + display(t) + " has MarshalText without UnmarshalText: add that to *" + display(t)
	}
	return "the field is unexported, so it would vanish on the way: export it, tag it `raysys:\"-\"`, or give *" + display(t) + " MarshalBinary and UnmarshalBinary"
}

// rootName is the name of t without its package, and without directories in its type arguments.
func rootName(t reflect.Type) string {
	name := display(t)
	if t.PkgPath() == "" {
		return name
	}
	_, name, _ = strings.Cut(name, ".")
	return name
}

// unfitKey returns the type in key that keeps it from being a map key, and why; nil where there is none. The bytes of two
// keys must differ exactly when the keys do.
func unfitKey(key reflect.Type) (bad reflect.Type, why string) {
	if leafOf(key) != nil {
		return key, " encodes itself"
	}
	switch k := key.Kind(); {
	case k == reflect.String, k == reflect.Bool, k >= reflect.Int && k <= reflect.Uint64:
		return nil, ""
	case k == reflect.Array:
		return unfitKey(key.Elem())
	case k == reflect.Struct && !core.IsRef(key):
		for i := range key.NumField() {
			f := key.Field(i)
			if f.Tag.Get("raysys") == "-" || f.Name == "_" {
				return key, " leaves the field " + f.Name + " out, by which two keys may differ"
			}
			if bad, why = unfitKey(f.Type); bad != nil {
				return bad, why
			}
		}
		return nil, ""
	}
	return key, " has no order that is the same everywhere"
}
