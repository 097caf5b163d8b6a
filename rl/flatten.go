package rl

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Flatten is for environments whose observation is a struct: it returns a function that writes the numbers of a T after each other, in the order of the
// fields, and how many there are. A field is a number, a bool (1 or 0), a slice or array of these, or a struct or array of such fields; Flatten panics for
// any other. Slices always have as many numbers as in the example: flat panics with an *EnvError where one has not. Each call of flat writes to the same
// slice, as Env allows. Whole numbers beyond 1<<24 lose digits.
//
//	flat, size := rl.Flatten(Seen{Lidar: make([]float32, 16)})
//	obs := flat(&seen)
func Flatten[T any](example T) (flat func(*T) []float32, size int) {
	f := &flattening{}
	f.add(reflect.ValueOf(&example).Elem(), 0, reflect.TypeFor[T]().String())
	f.to = make([]float32, f.size)
	return func(v *T) []float32 { return f.write(unsafe.Pointer(v)) }, f.size
}

// flattening is how a type becomes numbers: reflection finds the spans once, and writing them follows pointers alone.
type flattening struct {
	spans []span
	size  int
	to    []float32
}

// span is a run of n numbers of one type at an offset of the struct, or behind a slice there.
type span struct {
	name   string
	offset uintptr
	n      int
	slice  bool
	put    func(to []float32, from unsafe.Pointer)
}

func (f *flattening) add(v reflect.Value, offset uintptr, name string) {
	s := span{name: name, offset: offset, n: 1}
	elem := v.Type()
	switch k := v.Kind(); {
	case k == reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			f.add(v.Field(i), offset+field.Offset, name+"."+field.Name)
		}
		return
	case k == reflect.Array && puts[elem.Elem().Kind()] == nil:
		for i := range v.Len() {
			f.add(v.Index(i), offset+uintptr(i)*elem.Elem().Size(), fmt.Sprintf("%s[%d]", name, i))
		}
		return
	case k == reflect.Array, k == reflect.Slice:
		s.n, s.slice, elem = v.Len(), k == reflect.Slice, elem.Elem()
	}
	if s.put = puts[elem.Kind()]; s.put == nil {
		panic(fmt.Sprintf("rl.Flatten: %s is a %v, which is neither a number nor made of numbers", name, v.Type()))
	}
	f.spans = append(f.spans, s)
	f.size += s.n
}

func (f *flattening) write(from unsafe.Pointer) []float32 {
	to := f.to
	for i := range f.spans {
		s := &f.spans[i]
		p := unsafe.Add(from, s.offset)
		if s.slice {
			header := *(*[]struct{})(p) // any slice: its length and where its numbers are
			if len(header) != s.n {
				panic(&EnvError{What: fmt.Sprintf("%s has %d numbers, and in the example of rl.Flatten %d", s.name, len(header), s.n)})
			}
			p = unsafe.Pointer(unsafe.SliceData(header))
		}
		s.put(to[:s.n], p)
		to = to[s.n:]
	}
	return f.to
}

type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

func put[N number](to []float32, from unsafe.Pointer) {
	for i, x := range unsafe.Slice((*N)(from), len(to)) {
		to[i] = float32(x)
	}
}

var puts = map[reflect.Kind]func([]float32, unsafe.Pointer){
	reflect.Bool: put[uint8], // 1 or 0 in memory
	reflect.Int:  put[int], reflect.Int8: put[int8], reflect.Int16: put[int16], reflect.Int32: put[int32], reflect.Int64: put[int64],
	reflect.Uint: put[uint], reflect.Uint8: put[uint8], reflect.Uint16: put[uint16], reflect.Uint32: put[uint32], reflect.Uint64: put[uint64],
	reflect.Float32: put[float32], reflect.Float64: put[float64],
}
