package codec

import (
	"reflect"
	"slices"
	"strconv"
	"unsafe"
)

// Bounds of values of a type that contains itself. A value that is part of itself would have no end, and one that is
// reached in many ways travels as that many copies.
const (
	maxRecursion = 10_000
	maxMeasured  = 1 << 20 // of such values in one, as far as Size counts
)

// knot is a type while it is built, and then where values of it are in themselves.
type knot struct {
	target *node
	met    bool
}

// innerNode returns the node of t inside itself. What the builder asks of it does not depend on what t holds: it has no body,
// and no reference, since that is refused.
func (k *knot) innerNode(t reflect.Type) *node {
	k.met = true
	a := &recursion{knot: k, typ: t}
	n := &node{shape: a, typ: t, sizer: a}
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		n.nullable = true
	}
	return n
}

// tie is called when n, the knot's type, is built.
func (k *knot) tie(n *node) {
	if k.met {
		n.shape = &tied{n.shape, n.typ}
		k.target = n
	}
}

// tied is the outermost node of a type that contains itself; it gives the schema a name for it.
type tied struct {
	shape
	typ reflect.Type
}

func (t *tied) describe(s *schema) {
	s.open = append(s.open, t.typ)
	t.shape.describe(s)
	s.open = s.open[:len(s.open)-1]
}

// recursion is a type inside itself.
type recursion struct {
	*knot
	typ reflect.Type
}

func (r *recursion) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	if e.level++; e.level > maxRecursion {
		return nil, unencodable(nil, "values of %s are in each other more than %d deep: is there a cycle? Keep them in a slice, with indices for pointers", display(r.typ), maxRecursion)
	}
	return r.target.append(dst, p, e)
}

func (r *recursion) decode(d *decoder, p unsafe.Pointer) error {
	if d.level++; d.level > maxRecursion {
		return d.fail("values of %s are in each other more than %d deep", display(r.typ), maxRecursion)
	}
	err := r.target.decode(d, p)
	d.level--
	return err
}

// size stops counting where a value has no end.
func (r *recursion) size(p unsafe.Pointer, m measure) int {
	if m.values == nil {
		m.values = new(int)
	}
	*m.values++
	if m.level++; m.level > maxRecursion || *m.values > maxMeasured || r.target.sizer == nil {
		return 0
	}
	return r.target.sizer.size(p, m)
}

func (r *recursion) describe(s *schema) { s.write("^" + strconv.Itoa(slices.Index(s.open, r.typ))) }
