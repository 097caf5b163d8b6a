package process

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// DType is the type of a tensor's elements, under numpy's name.
type DType string

// The types of elements.
const (
	Float32 DType = "float32"
	Float64 DType = "float64"
	Int32   DType = "int32"
	Int64   DType = "int64"
	Uint8   DType = "uint8"
	Bool    DType = "bool"
)

// size is that of an element in bytes, 0 for a type that is none.
func (d DType) size() int {
	switch d {
	case Float64, Int64:
		return 8
	case Float32, Int32:
		return 4
	case Uint8, Bool:
		return 1
	}
	return 0
}

// Element is a type of elements in Go.
type Element interface {
	float32 | float64 | int32 | int64 | uint8 | bool
}

// Tensor is an array that travels as its bytes. The zero Tensor is no array: None in Python.
type Tensor struct {
	DType DType
	Shape []int  // the last dimension is that of neighbors
	Data  []byte // the elements, little-endian, row by row
}

// Of makes a tensor of values in that shape, by default a vector. It panics where the shape has room for another number of them.
func Of[T Element](values []T, shape ...int) Tensor {
	if len(shape) == 0 {
		shape = []int{len(values)}
	}
	t := Tensor{DType: dtypeOf[T](), Shape: slices.Clone(shape)}
	if n, err := t.length(); err != nil || n != len(values)*t.DType.size() {
		panic(fmt.Sprintf("process.Of: %d values in the shape %v", len(values), shape))
	}
	t.Data, _ = binary.Append(make([]byte, 0, len(values)*t.DType.size()), binary.LittleEndian, values) // these types are encodable
	return t
}

// Values returns the elements of a tensor, which must be of that type.
func Values[T Element](t Tensor) ([]T, error) {
	if err := t.valid(); err != nil {
		return nil, err
	}
	if want := dtypeOf[T](); t.DType != want {
		return nil, fmt.Errorf("%w: elements of %s, not of %s", ErrTensor, t.DType, want)
	}
	values := make([]T, len(t.Data)/t.DType.size())
	if _, err := binary.Decode(t.Data, binary.LittleEndian, values); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTensor, err)
	}
	return values, nil
}

func dtypeOf[T Element]() DType {
	switch any(*new(T)).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	}
	return Bool
}

// IsZero reports whether t is the zero Tensor.
func (t Tensor) IsZero() bool { return t.DType == "" && t.Shape == nil && t.Data == nil }

// String is type and shape.
func (t Tensor) String() string { return fmt.Sprintf("%s%v", t.DType, t.Shape) }

// MarshalJSON implements json.Marshaler: null for the zero Tensor. Others travel beside the JSON, and only those that are fields of
// the argument itself.
func (t Tensor) MarshalJSON() ([]byte, error) {
	if !t.IsZero() {
		return nil, fmt.Errorf("%w: %v is inside a field: make it a field of the argument itself", ErrTensor, t)
	}
	return []byte("null"), nil
}

// UnmarshalJSON implements json.Unmarshaler: it refuses all but null.
func (t *Tensor) UnmarshalJSON(b []byte) error {
	if string(b) != "null" {
		return fmt.Errorf("%w: the child gave %.20s, which is no array with a dimension: make it a numpy array (one number: reshape(1)), "+
			"or an array.array", ErrTensor, b)
	}
	return nil
}

// length is how many bytes type and shape ask for.
func (t Tensor) length() (int, error) {
	n := t.DType.size()
	if n == 0 {
		return 0, fmt.Errorf("%w: elements of %.20q", ErrTensor, string(t.DType))
	}
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > math.MaxInt32/d {
			return 0, fmt.Errorf("%w: the shape %v", ErrTensor, t.Shape)
		}
		n *= d
	}
	return n, nil
}

func (t Tensor) valid() error {
	n, err := t.length()
	if err == nil && n != len(t.Data) {
		err = fmt.Errorf("%w: %d bytes for %v", ErrTensor, len(t.Data), t)
	}
	return err
}

// nan returns the index of the first element that is not a number, -1 where there is none.
func (t Tensor) nan() int {
	switch t.DType {
	case Float32:
		for i := 0; i+4 <= len(t.Data); i += 4 {
			if binary.LittleEndian.Uint32(t.Data[i:])&^(1<<31) > 0x7f800000 { // the sign does not count; this is infinity
				return i / 4
			}
		}
	case Float64:
		for i := 0; i+8 <= len(t.Data); i += 8 {
			if binary.LittleEndian.Uint64(t.Data[i:])&^(1<<63) > 0x7ff0000000000000 {
				return i / 8
			}
		}
	}
	return -1
}
