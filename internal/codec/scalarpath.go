package codec

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// A value that is one number, bool or string, as most of what small tasks and calls take and return, goes straight to
// its shape: the call is direct, so that the decoder stays on the stack.

// AppendAt is Append for the value at v, which has the type of the plan.
func (p *Plan) AppendAt(dst []byte, v unsafe.Pointer, refs *[]*core.Future) ([]byte, error) {
	return p.append(dst, v, refs)
}

// DecodeAt is Decode into v, which has the type of the plan and is zero.
func (p *Plan) DecodeAt(data []byte, v unsafe.Pointer, refs []*core.Future) error {
	err := p.decode(data, v, refs)
	if err != nil {
		reflect.NewAt(p.typ, v).Elem().SetZero()
	}
	return err
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
