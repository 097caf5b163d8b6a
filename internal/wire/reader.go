package wire

import (
	"encoding/binary"
	"errors"

	"github.com/raysys/raysys"
)

// ErrCorrupt: a frame does not hold what its kind says. The link that brought it is closed.
var ErrCorrupt = errors.New("corrupt frame")

// Reader takes a frame apart. Once something is missing every later read returns zero, and Err tells, so a decoder
// reads all its fields and looks once.
type Reader struct {
	b   []byte
	bad bool
}

// NewReader reads b.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err returns ErrCorrupt when a read went beyond the frame.
func (r *Reader) Err() error {
	if r.bad {
		return ErrCorrupt
	}
	return nil
}

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.b) }

func (r *Reader) fail() { r.bad, r.b = true, nil }

// Uvarint reads an unsigned number.
func (r *Reader) Uvarint() uint64 {
	// The usual number is one byte.
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Uint32 reads a number that must fit.
func (r *Reader) Uint32() uint32 {
	v := r.Uvarint()
	if v > 1<<32-1 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// Count reads how many elements of at least size bytes follow.
func (r *Reader) Count(size int) int {
	v := r.Uvarint()
	if v > uint64(len(r.b)/max(size, 1)) {
		r.fail()
		return 0
	}
	return int(v)
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Uint64 reads eight bytes.
func (r *Reader) Uint64() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// ID reads a 128-bit id.
func (r *Reader) ID() raysys.TaskID {
	hi := r.Uint64()
	return raysys.TaskID{Hi: hi, Lo: r.Uint64()}
}

// Bytes reads a length and that many bytes. They are the frame's own and must be copied to be kept.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// String reads a length and that many bytes.
func (r *Reader) String() string { return string(r.Bytes()) }

// Sized reads a length of four bytes and that many bytes, which are the frame's own.
func (r *Reader) Sized() []byte {
	if len(r.b) < lengthSize {
		r.fail()
		return nil
	}
	n := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[lengthSize:]
	if uint64(n) > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Large reports whether what follows is no value, but objects that hold it, and passes over the mark that says so.
func (r *Reader) Large() bool {
	if len(r.b) < lengthSize || binary.LittleEndian.Uint32(r.b) != largeMark {
		return false
	}
	r.b = r.b[lengthSize:]
	return true
}

// Rest returns what is left.
func (r *Reader) Rest() []byte {
	v := r.b
	r.b = nil
	return v
}

// AppendID appends a 128-bit id.
func AppendID(dst []byte, id raysys.TaskID) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, id.Hi)
	return binary.LittleEndian.AppendUint64(dst, id.Lo)
}

// AppendBytes appends a length and b.
func AppendBytes[B ~[]byte | ~string](dst []byte, b B) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// AppendUvarint appends an unsigned number.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendNested appends the length of what f appends to a slice, and that.
func AppendNested(dst []byte, f func([]byte) []byte) []byte {
	at := len(dst)
	dst = f(append(dst, 0)) // where one byte is enough for the length
	n := len(dst) - at - 1
	if n < 1<<7 {
		dst[at] = byte(n)
		return dst
	}
	var head [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(head[:], uint64(n))
	dst = append(dst, head[1:size]...) // as long as the rest of the length
	copy(dst[at+size:], dst[at+1:at+1+n])
	copy(dst[at:], head[:size])
	return dst
}
