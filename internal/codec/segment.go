package codec

import (
	"encoding/binary"
	"reflect"
	"unsafe"
)

// segment is a slice or array of numbers: one block of little-endian numbers, marked with its element code.
type segment struct {
	typ    reflect.Type
	code   byte
	per    int  // numbers in an element: 2 for complex ones
	mem    int  // bytes of a number in memory
	wire   int  // and on the wire: int and uint are 8 everywhere
	signed bool // only matters where mem differs from wire
	array  bool
	length int // of the array
}

// Element codes are the tags of the typed arrays in RFC 8746. Plain bytes need none inside CBOR, where they are a byte
// string; there, codeUint8 marks bools.
const (
	codeUint8   = 64
	codeUint16  = 69
	codeUint32  = 70
	codeUint64  = 71
	codeInt8    = 72
	codeInt16   = 77
	codeInt32   = 78
	codeInt64   = 79
	codeFloat32 = 85
	codeFloat64 = 86
)

// rawPad follows the element code in a body of its own: it puts the numbers at an offset of 8, where a mapped file can
// be read in place.
var rawPad [5]byte

type numeric struct {
	code      byte
	per, wire int
}

var numerics = map[reflect.Kind]numeric{
	reflect.Bool: {codeUint8, 1, 1},
	reflect.Int:  {codeInt64, 1, 8}, reflect.Uint: {codeUint64, 1, 8},
	reflect.Int8: {codeInt8, 1, 1}, reflect.Uint8: {codeUint8, 1, 1},
	reflect.Int16: {codeInt16, 1, 2}, reflect.Uint16: {codeUint16, 1, 2},
	reflect.Int32: {codeInt32, 1, 4}, reflect.Uint32: {codeUint32, 1, 4},
	reflect.Int64: {codeInt64, 1, 8}, reflect.Uint64: {codeUint64, 1, 8},
	reflect.Float32: {codeFloat32, 1, 4}, reflect.Float64: {codeFloat64, 1, 8},
	reflect.Complex64: {codeFloat32, 2, 4}, reflect.Complex128: {codeFloat64, 2, 8},
}

// segmentNode is the node of t where it is a slice or array of numbers, else nil.
func segmentNode(t reflect.Type) *node {
	elem := t.Elem()
	num, ok := numerics[elem.Kind()]
	if !ok || leafOf(elem) != nil {
		return nil
	}
	s := &segment{typ: t, code: num.code, per: num.per, mem: int(elem.Size()) / num.per, wire: num.wire}
	s.signed = elem.Kind() == reflect.Int
	n := &node{shape: s}
	if t.Kind() == reflect.Array {
		s.array, s.length = true, t.Len()
	} else {
		n.nullable, n.body, n.sizer = true, s, s
	}
	return n
}

func (s *segment) bools() bool { return s.typ.Elem().Kind() == reflect.Bool }
func (s *segment) bytes() bool { return s.code == codeUint8 && !s.bools() }
func (s *segment) moves() bool { return littleEndian && s.mem == s.wire }
func (s *segment) elem() int   { return s.per * s.wire }
func (s *segment) form() byte  { return formRaw }

// numbers returns where the numbers of the value at p are, and how many.
func (s *segment) numbers(p unsafe.Pointer) (unsafe.Pointer, int) {
	if s.array {
		return p, s.length * s.per
	}
	h := (*sliceHeader)(p)
	return h.data, h.len * s.per
}

func (s *segment) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	data, n := s.numbers(p)
	if !s.array && data == nil {
		return append(dst, cborNull), nil
	}
	if !s.bytes() {
		dst = appendHead(dst, majorTag, uint64(s.code))
	}
	return s.appendNumbers(appendHead(dst, majorBytes, uint64(n*s.wire)), data, n, e), nil
}

func (s *segment) appendBody(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	data, n := s.numbers(p)
	dst = append(append(dst, s.code), rawPad[:]...)
	return s.appendNumbers(dst, data, n, e), nil
}

func (s *segment) appendNumbers(dst []byte, data unsafe.Pointer, n int, e pass) []byte {
	if s.moves() {
		if e.split != nil && n*s.mem >= Large {
			return e.cut(dst, unsafe.Slice((*byte)(data), n*s.mem))
		}
		return append(dst, unsafe.Slice((*byte)(data), n*s.mem)...)
	}
	return appendSlowly(dst, data, n, s.mem, s.wire, s.signed)
}

func (s *segment) decode(d *decoder, p unsafe.Pointer) error {
	if !s.array && d.null() {
		return nil
	}
	if !s.bytes() {
		start := d.off
		code, err := d.expect(majorTag, "a list of numbers")
		if err != nil {
			return err
		}
		if code != uint64(s.code) {
			d.off = start
			return d.fail("numbers of code %d were expected, not of %d: the sender has another type here", s.code, code)
		}
	}
	n, err := d.expect(majorBytes, "bytes")
	if err != nil {
		return err
	}
	return s.decodeNumbers(d, n, p)
}

func (s *segment) decodeBody(d *decoder, p unsafe.Pointer) error {
	head, err := d.take(6)
	if err != nil {
		return err
	}
	if head[0] != s.code || [5]byte(head[1:]) != rawPad {
		d.off -= 6
		return d.fail("numbers of code %d were expected, not of %d: the sender has another type under this name", s.code, head[0])
	}
	return s.decodeNumbers(d, uint64(d.left()), p)
}

func (s *segment) decodeNumbers(d *decoder, size uint64, p unsafe.Pointer) error {
	start := d.off
	src, err := d.take(size)
	if err != nil {
		return err
	}
	n := len(src) / s.wire
	switch {
	case len(src)%s.elem() != 0:
		d.off = start
		return d.fail("%d bytes are no whole number of elements of %d bytes", len(src), s.elem())
	case s.array && n != s.length*s.per:
		d.off = start
		return d.fail("an array of %d elements was expected, not of %d", s.length, n/s.per)
	case s.bools() && !allBools(src):
		d.off = start
		return d.fail("a bool is 0 or 1")
	}
	if !s.array && s.moves() {
		if d.shared && aligned(src, s.mem) {
			*(*sliceHeader)(p) = sliceHeader{unsafe.Pointer(unsafe.SliceData(src)), n / s.per, n / s.per}
			return nil
		}
		*(*sliceHeader)(p) = sliceHeader{clone(src, s.mem), n / s.per, n / s.per}
		return nil
	}
	dst := p
	if !s.array {
		dst = reflect.MakeSlice(s.typ, n/s.per, n/s.per).UnsafePointer()
		*(*sliceHeader)(p) = sliceHeader{dst, n / s.per, n / s.per}
	}
	if s.moves() {
		copy(unsafe.Slice((*byte)(dst), len(src)), src)
	} else if i := decodeSlowly(dst, src, s.mem, s.wire, s.signed); i >= 0 {
		d.off = start + i*s.wire
		return d.fail("the number does not fit %s on this machine", s.typ.Elem())
	}
	return nil
}

func (s *segment) size(p unsafe.Pointer, _ measure) int {
	return (*sliceHeader)(p).cap * s.per * s.mem
}

func (s *segment) describe(sc *schema) {
	sc.bracket(s.array, s.length)
	sc.write(s.typ.Elem().Kind().String())
}

// allBools reports whether every byte is 0 or 1, eight at a time.
func allBools(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&^0x0101_0101_0101_0101 != 0 {
			return false
		}
	}
	for _, c := range b {
		if c > 1 {
			return false
		}
	}
	return true
}
