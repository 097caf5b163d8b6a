package codec

import (
	"reflect"
	"strconv"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// list is a slice of anything but numbers.
type list struct {
	typ  reflect.Type
	elem *node
	step int // bytes of an element in memory
	wire int // and on the wire, at least
}

func listNode(t reflect.Type, elem *node) *node {
	l := &list{t, elem, int(elem.typ.Size()), elem.least()}
	n := &node{shape: l, nullable: true, sizer: l}
	if elem.referrer != nil {
		n.referrer = l
	}
	return n
}

func (l *list) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	h := (*sliceHeader)(p)
	if h.data == nil {
		return append(dst, cborNull), nil
	}
	return appendItems(appendHead(dst, majorArray, uint64(h.len)), h.data, h.len, l.elem, e)
}

func (l *list) decode(d *decoder, p unsafe.Pointer) error {
	if d.null() {
		return nil
	}
	n, err := d.count(majorArray, "a list", l.wire)
	if err != nil {
		return err
	}
	if err := d.room(n, l.step); err != nil {
		return err
	}
	data := reflect.MakeSlice(l.typ, n, n).UnsafePointer()
	*(*sliceHeader)(p) = sliceHeader{data, n, n}
	return decodeItems(d, data, n, l.elem)
}

func (l *list) size(p unsafe.Pointer, m measure) int {
	h := (*sliceHeader)(p)
	return h.cap*l.step + sizeItems(h.data, h.len, l.elem, m)
}

func (l *list) refs(p unsafe.Pointer, visit func(core.RefValue)) {
	h := (*sliceHeader)(p)
	for i := range h.len {
		l.elem.referrer.refs(unsafe.Add(h.data, i*l.step), visit)
	}
}

func (l *list) describe(s *schema) {
	s.bracket(false, 0)
	l.elem.describe(s)
}

// array is an array of anything but numbers.
type array struct {
	elem   *node
	length int
}

func arrayNode(t reflect.Type, elem *node) *node {
	a := &array{elem, t.Len()}
	n := &node{shape: a}
	if elem.sizer != nil {
		n.sizer = a
	}
	if elem.referrer != nil {
		n.referrer = a
	}
	return n
}

func (a *array) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	return appendItems(appendHead(dst, majorArray, uint64(a.length)), p, a.length, a.elem, e)
}

func (a *array) decode(d *decoder, p unsafe.Pointer) error {
	if err := exactly(d, a.length); err != nil {
		return err
	}
	return decodeItems(d, p, a.length, a.elem)
}

func (a *array) size(p unsafe.Pointer, m measure) int { return sizeItems(p, a.length, a.elem, m) }

func (a *array) refs(p unsafe.Pointer, visit func(core.RefValue)) {
	for i := range a.length {
		a.elem.referrer.refs(unsafe.Add(p, i*int(a.elem.typ.Size())), visit)
	}
}

func (a *array) describe(s *schema) {
	s.bracket(true, a.length)
	a.elem.describe(s)
}

// least returns the fewest bytes a value takes on the wire. Arrays are where one byte would be far too few: a list that
// claims a megabyte of them must not take a gigabyte. A struct may have lost all its fields on the way.
func (n *node) least() int {
	switch s := n.shape.(type) {
	case *segment:
		if s.array {
			return 1 + s.length*s.elem()
		}
	case *array:
		return 1 + s.length*s.elem.least()
	}
	return 1
}

func appendItems(dst []byte, data unsafe.Pointer, n int, elem *node, e pass) ([]byte, error) {
	step := int(elem.typ.Size())
	for i := range n {
		var err error
		if dst, err = elem.append(dst, unsafe.Add(data, i*step), e); err != nil {
			return nil, at(err, "["+strconv.Itoa(i)+"]")
		}
		if e.split != nil {
			dst = e.split.pass(dst)
		}
	}
	return dst, nil
}

func decodeItems(d *decoder, data unsafe.Pointer, n int, elem *node) error {
	step := int(elem.typ.Size())
	for i := range n {
		if err := elem.decode(d, unsafe.Add(data, i*step)); err != nil {
			return at(err, "["+strconv.Itoa(i)+"]")
		}
	}
	return nil
}

func sizeItems(data unsafe.Pointer, n int, elem *node, m measure) int {
	if elem.sizer == nil {
		return 0
	}
	sum, step := 0, int(elem.typ.Size())
	for i := range n {
		sum += elem.sizer.size(unsafe.Add(data, i*step), m)
	}
	return sum
}
