package collective

import (
	"fmt"
	"unsafe"
)

// Number is what vectors are made of.
type Number interface {
	~float32 | ~float64 |
		~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Op says how two elements become one. Integers wrap around, and a NaN makes the result NaN.
type Op uint8

// The operations.
const (
	Sum Op = iota + 1
	Product
	Min
	Max
)

func (o Op) String() string {
	switch o {
	case Sum:
		return "sum"
	case Product:
		return "product"
	case Min:
		return "min"
	case Max:
		return "max"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

func (o Op) valid() bool { return o >= Sum && o <= Max }

// combine sets dst[i] to a[i] op b[i]; dst may be a or b. Which side is a matters for the bits of a NaN alone, and the
// callers keep to the order of the ranks even there, so that all ranks compute the same bits.
func combine[T Number](o Op, dst, a, b []T) {
	b, dst = b[:len(a)], dst[:len(a)]
	switch o {
	case Sum:
		for i, x := range a {
			dst[i] = x + b[i]
		}
	case Product:
		for i, x := range a {
			dst[i] = x * b[i]
		}
	case Min:
		for i, x := range a {
			dst[i] = min(x, b[i])
		}
	case Max:
		for i, x := range a {
			dst[i] = max(x, b[i])
		}
	}
}

// sizeOf is the size of n elements in bytes.
func sizeOf[T Number](n int) int {
	var x T
	return n * int(unsafe.Sizeof(x))
}
