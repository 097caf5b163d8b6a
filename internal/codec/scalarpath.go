package codec

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// A value that is one number, bool or string, as most of what small tasks and calls take and return, goes straight to
// its shape: the call is direct, so that the decoder stays on the stack.

// AppendOf is Plan.Append for a value whose type is known when the program is compiled. It panics when p is not the plan
// of T.
func AppendOf[T any](dst []byte, p *Plan, v *T, refs *[]*core.Future) ([]byte, error) {
	p.check(reflect.TypeFor[T]())
	return p.append(dst, unsafe.Pointer(v), refs)
}

// DecodeOf is Plan.Decode for a value whose type is known when the program is compiled. It panics when p is not the plan
// of T.
func DecodeOf[T any](data []byte, p *Plan, v *T, refs []*core.Future) error {
	p.check(reflect.TypeFor[T]())
	var zero T
	*v = zero
	if err := p.decode(data, unsafe.Pointer(v), refs); err != nil {
		*v = zero
		return err
	}
	return nil
}

// appendScalar appends the value if it is a scalar of the plan's type; ok says so.
func (p *Plan) appendScalar(dst []byte, v unsafe.Pointer) (out []byte, ok bool) {
	if p.body != nil {
		return dst, false
	}
	switch s := p.root.shape.(type) {
	case signed:
		out, _ = s.append(append(dst, Version, formCBOR), v, pass{})
	case unsigned:
		out, _ = s.append(append(dst, Version, formCBOR), v, pass{})
	case float:
		out, _ = s.append(append(dst, Version, formCBOR), v, pass{})
	case boolean:
		out, _ = s.append(append(dst, Version, formCBOR), v, pass{})
	case text:
		out, _ = s.append(append(dst, Version, formCBOR), v, pass{})
	default:
		return dst, false
	}
	return out, true
}

// decodeScalar decodes the value if it is a scalar of the plan's type; ok says so. What it cannot read is left to decode,
// which says what is wrong.
func (p *Plan) decodeScalar(data []byte, v unsafe.Pointer) (ok bool) {
	if p.body != nil || len(data) < 2 || data[0] != Version || data[1] != formCBOR {
		return false
	}
	d := decoder{data: data, off: 2}
	var err error
	switch s := p.root.shape.(type) {
	case signed:
		err = s.decode(&d, v)
	case unsigned:
		err = s.decode(&d, v)
	case float:
		err = s.decode(&d, v)
	case boolean:
		err = s.decode(&d, v)
	case text:
		err = s.decode(&d, v)
	default:
		return false
	}
	return err == nil && d.off == len(data)
}
