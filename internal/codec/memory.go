package codec

import (
	"encoding/binary"
	"unsafe"
)

// sliceHeader is a slice as it lies in memory. data is a pointer to the collector, so that storing a header is a store
// it sees.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// littleEndian says whether numbers lie in memory as they travel.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// nothing is what an empty slice points at, so that it is not nil.
var nothing struct{}

// clone copies src into fresh memory that is aligned for numbers of the given size.
func clone(src []byte, size int) unsafe.Pointer {
	switch size {
	case 1:
		return cloneAs[uint8](src)
	case 2:
		return cloneAs[uint16](src)
	case 4:
		return cloneAs[uint32](src)
	default:
		return cloneAs[uint64](src)
	}
}

// cloneAs appends to nil, which, unlike make, does not clear the memory first: that is half the time of a large copy.
func cloneAs[E uint8 | uint16 | uint32 | uint64](src []byte) unsafe.Pointer {
	if len(src) == 0 {
		return unsafe.Pointer(&nothing)
	}
	var e E
	// src may lie at any address: append moves bytes and never loads an E from it.
	from := unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(src))), len(src)/int(unsafe.Sizeof(e)))
	return unsafe.Pointer(unsafe.SliceData(append([]E(nil), from...)))
}

// load reads the integer of the given size at p.
func load(p unsafe.Pointer, size int, signed bool) uint64 {
	switch size {
	case 1:
		if signed {
			return uint64(*(*int8)(p))
		}
		return uint64(*(*uint8)(p))
	case 2:
		if signed {
			return uint64(*(*int16)(p))
		}
		return uint64(*(*uint16)(p))
	case 4:
		if signed {
			return uint64(*(*int32)(p))
		}
		return uint64(*(*uint32)(p))
	default:
		return *(*uint64)(p)
	}
}

// store writes the low bytes of v as the integer of the given size at p.
func store(p unsafe.Pointer, size int, v uint64) {
	switch size {
	case 1:
		*(*uint8)(p) = uint8(v)
	case 2:
		*(*uint16)(p) = uint16(v)
	case 4:
		*(*uint32)(p) = uint32(v)
	default:
		*(*uint64)(p) = v
	}
}

// appendSlowly appends n numbers one by one: on big-endian machines, and for int and uint where they have 4 bytes.
func appendSlowly(dst []byte, data unsafe.Pointer, n, mem, wire int, signed bool) []byte {
	for i := range n {
		v := load(unsafe.Add(data, i*mem), mem, signed)
		for range wire {
			dst = append(dst, byte(v))
			v >>= 8
		}
	}
	return dst
}

// decodeSlowly is the way back. It returns the index of the first number that does not fit, or -1.
func decodeSlowly(dst unsafe.Pointer, src []byte, mem, wire int, signed bool) int {
	for i := range len(src) / wire {
		var v uint64
		for j := range wire {
			v |= uint64(src[i*wire+j]) << (8 * j)
		}
		p := unsafe.Add(dst, i*mem)
		store(p, mem, v)
		if mem < wire && load(p, mem, signed) != v {
			return i
		}
	}
	return -1
}
