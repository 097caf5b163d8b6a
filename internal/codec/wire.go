package codec

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// Version is the format version that Append writes, the first byte of every encoding.
const Version = 1

// Forms of a body, the second byte. Numbers are never reused.
const (
	formRaw    = 1
	formBinary = 2
	formText   = 3
	formProto  = 4
	formCBOR   = 5
)

// maxDepth bounds how deep interface values nest. Everything else is as deep as its type; see maxRecursion.
const maxDepth = 32

// body is a form of its own for whole values: the bytes follow the header directly and end with the input.
type body interface {
	form() byte
	appendBody(dst []byte, p unsafe.Pointer, e pass) ([]byte, error)
	decodeBody(d *decoder, p unsafe.Pointer) error
}

// pass is what travels down with every append.
type pass struct {
	refs  *[]*core.Future
	split *splitter // takes what is large apart from dst; nil copies everything
	depth int       // of interface values around this one
	level int       // of values in values of their own type
}

// Append appends the encoding of *v to dst. References go to *refs in the order they are met, once per occurrence; with
// refs nil a value that holds one is an error. On error dst and *refs are as they were.
func Append[T any](dst []byte, v *T, refs *[]*core.Future) ([]byte, error) {
	p, err := PlanOf(reflect.TypeFor[T]())
	if err != nil {
		return dst, err
	}
	return p.append(dst, unsafe.Pointer(v), refs)
}

// Append is the function Append for a value whose type is known at run time only.
func (p *Plan) Append(dst []byte, v reflect.Value, refs *[]*core.Future) ([]byte, error) {
	return p.append(dst, p.pointer(v), refs)
}

func (p *Plan) append(dst []byte, v unsafe.Pointer, refs *[]*core.Future) ([]byte, error) {
	if out, ok := p.appendScalar(dst, v); ok {
		return out, nil
	}
	return p.appendPass(dst, v, pass{refs: refs})
}

func (p *Plan) appendPass(dst []byte, v unsafe.Pointer, e pass) ([]byte, error) {
	refs := e.refs
	had := 0
	if refs != nil {
		had = len(*refs)
	}
	out, err := p.write(dst, v, e)
	if err != nil {
		if refs != nil {
			clear((*refs)[had:])
			*refs = (*refs)[:had]
		}
		if bad, ok := err.(*EncodeError); ok {
			bad.Type = p.typ
		}
		return dst, err
	}
	return out, nil
}

func (p *Plan) write(dst []byte, v unsafe.Pointer, e pass) ([]byte, error) {
	if p.body == nil || p.nilable && *(*unsafe.Pointer)(v) == nil { // the first word of a slice, too, is its pointer
		return p.root.append(append(dst, Version, formCBOR), v, e)
	}
	if p.through {
		v = *(*unsafe.Pointer)(v)
	}
	return p.body.appendBody(append(dst, Version, p.body.form()), v, e)
}

// Decode sets *v to the value that data encodes. References are pointed at the records in refs. On error *v is zero.
func Decode[T any](data []byte, v *T, refs []*core.Future) error {
	var zero T
	*v = zero
	p, err := PlanOf(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	if err := p.decode(data, unsafe.Pointer(v), refs); err != nil {
		*v = zero
		return err
	}
	return nil
}

// Decode is the function Decode for a value whose type is known at run time only. v must be settable.
func (p *Plan) Decode(data []byte, v reflect.Value, refs []*core.Future) error {
	v.SetZero()
	if err := p.decode(data, p.pointer(v), refs); err != nil {
		v.SetZero()
		return err
	}
	return nil
}

// decode sets *v, which is zero; after an error it may hold a part of the value.
func (p *Plan) decode(data []byte, v unsafe.Pointer, refs []*core.Future) error {
	if p.decodeScalar(data, v) {
		return nil
	}
	return p.decodeWith(&decoder{data: data, refs: refs}, v)
}

func (p *Plan) decodeWith(d *decoder, v unsafe.Pointer) error {
	err := p.read(d, v)
	if err == nil && d.off != len(d.data) {
		err = d.fail("%d bytes follow the value", len(d.data)-d.off)
	}
	if e, ok := err.(*DecodeError); ok {
		e.Type = p.typ
	}
	return err
}

func (p *Plan) read(d *decoder, v unsafe.Pointer) error {
	if len(d.data) < 2 {
		return d.fail("%d bytes are no value: every encoding begins with its version and form", len(d.data))
	}
	if got := d.data[0]; got != Version {
		return d.fail("format version %d is unknown here, where the newest is %d: upgrade this node", got, Version)
	}
	form := d.data[1]
	d.off = 2
	switch {
	case form == formCBOR && p.body == nil:
		return p.root.decode(d, v)
	case form == formCBOR && p.nilable && d.null(): // the one value that the body cannot say
		return nil
	case p.body == nil || form != p.body.form():
		d.off = 1
		return d.fail("form %d does not carry a %s here: the sender has another type under this name", form, p.typ)
	case p.through:
		elem := reflect.New(p.typ.Elem())
		*(*unsafe.Pointer)(v) = elem.UnsafePointer()
		v = elem.UnsafePointer()
	}
	return p.body.decodeBody(d, v)
}
