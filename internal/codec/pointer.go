package codec

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// pointer is null or what it points at. Where that may itself be null, it is a list of one, so that a pointer to nil
// is not nil.
type pointer struct{ elem *node }

func pointerNode(elem *node) *node {
	s := &pointer{elem}
	n := &node{shape: s, nullable: true, sizer: s}
	if elem.referrer != nil {
		n.referrer = s
	}
	return n
}

func (s *pointer) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	to := *(*unsafe.Pointer)(p)
	if to == nil {
		return append(dst, cborNull), nil
	}
	if s.elem.nullable {
		dst = appendHead(dst, majorArray, 1)
	}
	return s.elem.append(dst, to, e)
}

func (s *pointer) decode(d *decoder, p unsafe.Pointer) error {
	if d.null() {
		return nil
	}
	if s.elem.nullable {
		if err := exactly(d, 1); err != nil {
			return err
		}
	}
	if err := d.room(1, int(s.elem.typ.Size())); err != nil {
		return err
	}
	to := reflect.New(s.elem.typ).UnsafePointer()
	*(*unsafe.Pointer)(p) = to
	return s.elem.decode(d, to)
}

func (s *pointer) size(p unsafe.Pointer, m measure) int {
	to := *(*unsafe.Pointer)(p)
	if to == nil {
		return 0
	}
	return int(s.elem.typ.Size()) + sizeItems(to, 1, s.elem, m)
}

func (s *pointer) refs(p unsafe.Pointer, visit func(core.RefValue)) {
	if to := *(*unsafe.Pointer)(p); to != nil {
		s.elem.referrer.refs(to, visit)
	}
}

func (s *pointer) describe(sc *schema) {
	sc.write("*")
	s.elem.describe(sc)
}
