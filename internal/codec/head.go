package codec

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/raysys/raysys/internal/core"
)

// Major types of CBOR (RFC 8949 section 3.1), and the two-byte head's and simple values' bytes that are used.
const (
	majorUint  = 0
	majorNeg   = 1
	majorBytes = 2
	majorText  = 3
	majorArray = 4
	majorMap   = 5
	majorTag   = 6
	majorOther = 7

	cborFalse   = 0xf4
	cborTrue    = 0xf5
	cborNull    = 0xf6
	cborFloat32 = 0xfa
	cborFloat64 = 0xfb
)

// appendHead appends the shortest head with the given argument.
func appendHead(dst []byte, major byte, arg uint64) []byte {
	major <<= 5
	switch {
	case arg < 24:
		return append(dst, major|byte(arg))
	case arg <= 0xff:
		return append(dst, major|24, byte(arg))
	case arg <= 0xffff:
		return append(dst, major|25, byte(arg>>8), byte(arg))
	case arg <= 0xffff_ffff:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(arg))
	default:
		return binary.BigEndian.AppendUint64(append(dst, major|27), arg)
	}
}

// appendString appends s as text, or as bytes where it is no UTF-8: a Go string may hold anything, a CBOR text may not.
func appendString(dst []byte, s string) []byte {
	return append(appendHead(dst, textMajor(utf8.ValidString(s)), uint64(len(s))), s...)
}

func textMajor(valid bool) byte {
	if valid {
		return majorText
	}
	return majorBytes
}

// decoder reads one input.
type decoder struct {
	data  []byte
	off   int
	refs  []*core.Future
	depth int // of interface values around this one
	level int // of values in values of their own type
	taken int // bytes of memory for elements, whose input may be shorter by far
	// shared lets slices look into data instead of copying from it.
	shared bool
}

func (d *decoder) fail(format string, args ...any) *DecodeError {
	return &DecodeError{Offset: d.off, Reason: fmt.Sprintf(format, args...)}
}

func (d *decoder) left() int { return len(d.data) - d.off }

// head reads one head. Only shortest heads are read, so that a value has one encoding.
func (d *decoder) head() (major byte, arg uint64, err error) {
	if d.off >= len(d.data) {
		return 0, 0, d.fail("the input ends inside the value")
	}
	b := d.data[d.off]
	major, info := b>>5, b&31
	if info < 24 {
		d.off++
		return major, uint64(info), nil
	}
	if info > 27 {
		return 0, 0, d.fail("byte %#02x begins no value of this format", b)
	}
	n := 1 << (info - 24)
	if d.left() <= n {
		return 0, 0, d.fail("the input ends inside the value")
	}
	// The argument was read whole: what is shorter than its head allows has another, shorter encoding. Floats, major
	// type 7, have no shorter one.
	rest := d.data[d.off+1:]
	least := uint64(24)
	switch n {
	case 1:
		arg = uint64(rest[0])
	case 2:
		arg, least = uint64(binary.BigEndian.Uint16(rest)), 0x100
	case 4:
		arg, least = uint64(binary.BigEndian.Uint32(rest)), 0x1_0000
	case 8:
		arg, least = binary.BigEndian.Uint64(rest), 0x1_0000_0000
	}
	if arg < least && major != majorOther {
		return 0, 0, d.fail("a length or number is not in its shortest form")
	}
	d.off += 1 + n
	return major, arg, nil
}

// expect reads a head of the given major type.
func (d *decoder) expect(major byte, what string) (uint64, error) {
	start := d.off
	got, arg, err := d.head()
	if err != nil {
		return 0, err
	}
	if got != major {
		d.off = start
		return 0, d.fail("%s was expected, not %s: the sender has another type here", what, majorNames[got])
	}
	return arg, nil
}

var majorNames = [...]string{"a number", "a negative number", "bytes", "text", "a list", "a map", "a tag", "a simple value or float"}

// Bounds of the memory that a value may take beside what its bytes and texts do. What this package encodes takes less
// than 32 times its length, unless fields that do not travel, or that the sender's version lacks, make it larger.
const (
	leastMemory = 16 << 20
	memoryRatio = 64
)

// room counts n elements of size bytes in memory before they are made.
func (d *decoder) room(n, size int) error {
	limit := leastMemory + memoryRatio*len(d.data)
	if size > 0 && n > (limit-d.taken)/size {
		return d.fail("%d values of %d bytes each would take more memory than the %d bytes of input may (%d): keep large fields that do not travel out of them", n, size, len(d.data), limit)
	}
	d.taken += n * size
	return nil
}

// count reads the head of a list or map whose items take at least width bytes each. What it returns fits the input, so
// memory may be taken for it.
func (d *decoder) count(major byte, what string, width int) (int, error) {
	start := d.off
	n, err := d.expect(major, what)
	if err != nil {
		return 0, err
	}
	if left := d.left(); n > uint64(left/width) {
		d.off = start
		return 0, d.fail("%d items cannot be in the %d bytes that follow", n, left)
	}
	return int(n), nil
}

// take returns the next n bytes of the input itself; the caller copies what it keeps.
func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(d.left()) {
		return nil, d.fail("%d bytes are announced and %d are left", n, d.left())
	}
	b := d.data[d.off : d.off+int(n)]
	d.off += int(n)
	return b, nil
}

// null reads a null if one comes next.
func (d *decoder) null() bool {
	if d.off < len(d.data) && d.data[d.off] == cborNull {
		d.off++
		return true
	}
	return false
}

// text reads what appendString wrote.
func (d *decoder) text() ([]byte, error) {
	start := d.off
	major, n, err := d.head()
	if err != nil {
		return nil, err
	}
	if major != majorText && major != majorBytes {
		d.off = start
		return nil, d.fail("text was expected, not %s: the sender has another type here", majorNames[major])
	}
	b, err := d.take(n)
	if err != nil {
		return nil, err
	}
	if major != textMajor(utf8.Valid(b)) {
		d.off = start
		return nil, d.fail("a string is UTF-8 exactly when it is marked as text")
	}
	return b, nil
}

// skip passes over one item of any kind. It counts the items still to come instead of recursing, so that depth costs
// nothing.
func (d *decoder) skip() error {
	for items := uint64(1); items > 0; items-- {
		major, arg, err := d.head()
		if err != nil {
			return err
		}
		switch major {
		case majorBytes, majorText:
			if _, err := d.take(arg); err != nil {
				return err
			}
			continue
		case majorTag:
			arg = 1
		case majorArray:
		case majorMap:
			arg = min(arg, 1<<62) * 2
		default:
			continue
		}
		if arg > uint64(d.left()) || items+arg > uint64(d.left())+1 {
			return d.fail("more items are announced than bytes are left")
		}
		items += arg
	}
	return nil
}
