package codec

import (
	"encoding/binary"
	"math"
	"reflect"
	"unicode/utf8"
	"unsafe"
)

// scalarNode is the node of a bool, number or string type that does not encode itself.
func scalarNode(t reflect.Type) *node {
	n := &node{typ: t}
	switch k := t.Kind(); k {
	case reflect.Bool:
		n.shape = boolean{}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n.shape = signed{k, int(t.Size())}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n.shape = unsigned{k, int(t.Size())}
	case reflect.Float32, reflect.Float64:
		n.shape = float{k, int(t.Size())}
	case reflect.Complex64, reflect.Complex128:
		n.shape = complexPair{k, float{size: int(t.Size()) / 2}}
	default:
		n.shape, n.sizer = text{}, text{}
	}
	return n
}

type boolean struct{}

func (boolean) append(dst []byte, p unsafe.Pointer, _ pass) ([]byte, error) {
	if *(*bool)(p) {
		return append(dst, cborTrue), nil
	}
	return append(dst, cborFalse), nil
}

func (boolean) decode(d *decoder, p unsafe.Pointer) error {
	if d.off < len(d.data) {
		switch d.data[d.off] {
		case cborTrue:
			*(*bool)(p) = true
			fallthrough
		case cborFalse:
			d.off++
			return nil
		}
	}
	return d.fail("a bool was expected: the sender has another type here")
}

func (boolean) describe(s *schema) { s.write("bool") }

type signed struct {
	kind reflect.Kind
	size int
}

func (i signed) append(dst []byte, p unsafe.Pointer, _ pass) ([]byte, error) {
	v := int64(load(p, i.size, true))
	if v < 0 {
		return appendHead(dst, majorNeg, uint64(^v)), nil
	}
	return appendHead(dst, majorUint, uint64(v)), nil
}

func (i signed) decode(d *decoder, p unsafe.Pointer) error {
	start := d.off
	major, arg, err := d.head()
	if err != nil {
		return err
	}
	// The most negative number is the complement of the most positive one, so both signs have one limit.
	if major > majorNeg || arg>>(i.size*8-1) != 0 {
		d.off = start
		return outOfRange(d, major, i.kind)
	}
	if major == majorNeg {
		arg = ^arg
	}
	store(p, i.size, arg)
	return nil
}

func (i signed) describe(s *schema) { s.write(i.kind.String()) }

type unsigned struct {
	kind reflect.Kind
	size int
}

func (u unsigned) append(dst []byte, p unsafe.Pointer, _ pass) ([]byte, error) {
	return appendHead(dst, majorUint, load(p, u.size, false)), nil
}

func (u unsigned) decode(d *decoder, p unsafe.Pointer) error {
	start := d.off
	major, arg, err := d.head()
	if err != nil {
		return err
	}
	if major != majorUint || arg>>(u.size*8-1)>>1 != 0 { // in two steps: 64 is no shift for 8 bytes
		d.off = start
		return outOfRange(d, major, u.kind)
	}
	store(p, u.size, arg)
	return nil
}

func (u unsigned) describe(s *schema) { s.write(u.kind.String()) }

func outOfRange(d *decoder, major byte, k reflect.Kind) error {
	if major > majorNeg {
		return d.fail("a number was expected, not %s: the sender has another type here", majorNames[major])
	}
	return d.fail("the number does not fit %s here: widen the field", k)
}

// float keeps all bits, those of a NaN too.
type float struct {
	kind reflect.Kind
	size int
}

func (f float) append(dst []byte, p unsafe.Pointer, _ pass) ([]byte, error) {
	if f.size == 4 {
		return binary.BigEndian.AppendUint32(append(dst, cborFloat32), *(*uint32)(p)), nil
	}
	return binary.BigEndian.AppendUint64(append(dst, cborFloat64), *(*uint64)(p)), nil
}

func (f float) decode(d *decoder, p unsafe.Pointer) error {
	start := d.off
	major, arg, err := d.head()
	if err != nil {
		return err
	}
	switch wide := d.data[start]; {
	case major == majorOther && wide == cborFloat32 && f.size == 4:
		*(*uint32)(p) = uint32(arg)
	case major == majorOther && wide == cborFloat32: // a field that was widened
		*(*float64)(p) = float64(math.Float32frombits(uint32(arg)))
	case major == majorOther && wide == cborFloat64 && f.size == 8:
		*(*uint64)(p) = arg
	default:
		d.off = start
		return d.fail("a float of %d bits was expected: the sender has another type here", f.size*8)
	}
	return nil
}

func (f float) describe(s *schema) { s.write(f.kind.String()) }

// complexPair is a list of the real and the imaginary part.
type complexPair struct {
	kind reflect.Kind
	part float
}

func (c complexPair) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	dst, _ = c.part.append(appendHead(dst, majorArray, 2), p, e)
	return c.part.append(dst, unsafe.Add(p, c.part.size), e)
}

func (c complexPair) decode(d *decoder, p unsafe.Pointer) error {
	if err := exactly(d, 2); err != nil {
		return err
	}
	if err := c.part.decode(d, p); err != nil {
		return err
	}
	return c.part.decode(d, unsafe.Add(p, c.part.size))
}

func (c complexPair) describe(s *schema) { s.write(c.kind.String()) }

// exactly reads the head of a list of n items.
func exactly(d *decoder, n int) error {
	start := d.off
	got, err := d.expect(majorArray, "a list")
	if err == nil && got != uint64(n) {
		d.off = start
		return d.fail("a list of %d was expected, not of %d: the sender has another type here", n, got)
	}
	return err
}

type text struct{}

func (text) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	s := *(*string)(p)
	if e.split != nil && len(s) >= Large {
		dst = appendHead(dst, textMajor(utf8.ValidString(s)), uint64(len(s)))
		return e.cut(dst, unsafe.Slice(unsafe.StringData(s), len(s))), nil
	}
	return appendString(dst, s), nil
}

func (text) decode(d *decoder, p unsafe.Pointer) error {
	b, err := d.text()
	if err != nil {
		return err
	}
	*(*string)(p) = string(b)
	return nil
}

func (text) size(p unsafe.Pointer, _ measure) int { return len(*(*string)(p)) }
func (text) describe(s *schema)                   { s.write("string") }
