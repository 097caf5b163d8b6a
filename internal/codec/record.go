package codec

import (
	"bytes"
	"cmp"
	"slices"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// record is a struct: a map by field name. Fields are in the order of their encoded names, in every version of the
// type, so that reading is a merge of two sorted lists and a field that comes twice is noticed.
type record struct {
	fields []field
	sized  []field // those that can hold memory
	placed []field // those that can hold references
	omits  bool    // a field is left out while it is zero
}

type field struct {
	name   string
	key    []byte // the encoded name
	offset uintptr
	node   *node
	omit   uintptr // the size of a field that is left out while it is zero; else 0
}

// add keeps the fields in order as they come.
func (r *record) add(name string, offset uintptr, n *node, omit uintptr) {
	f := field{name, appendString(nil, name), offset, n, omit}
	r.omits = r.omits || omit > 0
	i, _ := slices.BinarySearchFunc(r.fields, f, func(a, b field) int { return bytes.Compare(a.key, b.key) })
	r.fields = slices.Insert(r.fields, i, f)
}

func recordNode(r *record) *node {
	n := &node{shape: r}
	for _, f := range r.fields {
		if f.node.sizer != nil {
			r.sized, n.sizer = append(r.sized, f), r
		}
		if f.node.referrer != nil {
			r.placed, n.referrer = append(r.placed, f), r
		}
	}
	return n
}

func (r *record) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	n := len(r.fields)
	if r.omits {
		n = r.present(p)
	}
	dst = appendHead(dst, majorMap, uint64(n))
	for i := range r.fields {
		f := &r.fields[i]
		if f.omit > 0 && f.zero(p) {
			continue
		}
		var err error
		if dst, err = f.node.append(append(dst, f.key...), unsafe.Add(p, f.offset), e); err != nil {
			return nil, at(err, "."+f.name)
		}
	}
	return dst, nil
}

// present counts the fields of the struct at p that are not left out.
func (r *record) present(p unsafe.Pointer) (n int) {
	for i := range r.fields {
		if f := &r.fields[i]; f.omit == 0 || !f.zero(p) {
			n++
		}
	}
	return n
}

// zero reports whether the memory of the field in the struct at p is zero. Then so is its value: readers that find no such field make
// the same one.
func (f *field) zero(p unsafe.Pointer) bool {
	for _, b := range unsafe.Slice((*byte)(unsafe.Add(p, f.offset)), f.omit) {
		if b != 0 {
			return false
		}
	}
	return true
}

func (r *record) decode(d *decoder, p unsafe.Pointer) error {
	n, err := d.count(majorMap, "a struct", 2)
	if err != nil {
		return err
	}
	var last []byte
	next := 0
	for range n {
		key, err := d.name()
		if err != nil {
			return err
		}
		if last != nil && compareKeys(last, key) >= 0 {
			d.off -= len(key)
			return d.fail("field %q is out of order", key)
		}
		last = key
		for next < len(r.fields) && compareNames(r.fields[next].name, key) < 0 {
			next++ // the sender's version lacks it
		}
		if next == len(r.fields) || r.fields[next].name != string(key) {
			if err := d.skip(); err != nil {
				return at(err, "."+string(key))
			}
			continue
		}
		f := &r.fields[next]
		next++
		if err := f.node.decode(d, unsafe.Add(p, f.offset)); err != nil {
			return at(err, "."+f.name)
		}
	}
	return nil
}

// name reads a field name; it belongs to the input.
func (d *decoder) name() ([]byte, error) {
	n, err := d.expect(majorText, "a field name")
	if err != nil {
		return nil, err
	}
	return d.take(n)
}

// Encoded names compare by their heads first, which is by length.
func compareKeys(a, b []byte) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
}

func compareNames(a string, b []byte) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, string(b)))
}

func (r *record) size(p unsafe.Pointer, m measure) int {
	sum := 0
	for i := range r.sized {
		sum += r.sized[i].node.sizer.size(unsafe.Add(p, r.sized[i].offset), m)
	}
	return sum
}

func (r *record) refs(p unsafe.Pointer, visit func(core.RefValue)) {
	for i := range r.placed {
		r.placed[i].node.referrer.refs(unsafe.Add(p, r.placed[i].offset), visit)
	}
}

func (r *record) describe(s *schema) {
	s.write("{")
	for i, f := range r.fields {
		if i > 0 {
			s.write(";")
		}
		s.write(f.name + ":")
		f.node.describe(s)
	}
	s.write("}")
}
