package codec

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// DecodeShared is Decode for bytes that stay: numeric slices and []byte look into src wherever their numbers are aligned
// there, and are copied where not. Strings and arrays are always copied. A slice that looks into src has no spare
// capacity, so that an append to it copies.
//
// src must not change, and must not go away, while *v or anything reached through it is in use. Where src belongs to the
// collector the second takes care of itself.
//
// A value that is one numeric slice is always aligned when src is aligned to 8 bytes. Inside a struct the numbers lie
// where the encoding of what comes before them happens to end; bytes and bools are always shared.
func (p *Plan) DecodeShared(src []byte, v reflect.Value, refs []*core.Future) error {
	v.SetZero()
	if err := p.decodeWith(&decoder{data: src, refs: refs, shared: true}, p.pointer(v)); err != nil {
		v.SetZero()
		return err
	}
	return nil
}

// aligned reports whether numbers of the given size may be read where b begins. Nothing is shared of an empty block: its
// slice would keep the whole input for no byte of it.
func aligned(b []byte, size int) bool {
	return len(b) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(size) == 0
}
