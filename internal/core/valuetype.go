package core

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// ValueType is what plain code knows of the type T of a Result[T]. A method of a generic type is compiled for each type of value, called or
// not, so a Result has none: functions of this package take its Future, behind which the value lies.
type ValueType struct {
	Type   reflect.Type // T
	result reflect.Type // *Result[T]
	gated  bool         // T holds pointers
	once   sync.Once
	double reflect.Type // a fetched and a Result[T]: they take one allocation
	second uintptr      // where the Result is in it
	key    uintptr      // of result
}

// typed is a Work whose Future is that of a Result.
type typed interface{ ValueType() *ValueType }

// valueTypes are those that programs use, by the reflect.Type of *Result[T]; recent are the last of them, so that Put need not look there.
var (
	valueTypes sync.Map
	recent     [64]atomic.Pointer[ValueType]
)

// TypeOf returns that of T, the same each time.
func TypeOf[T any]() *ValueType { return valueTypeOf(reflect.TypeOf((*Result[T])(nil))) }

func valueTypeOf(result reflect.Type) *ValueType {
	key := (*[2]uintptr)(unsafe.Pointer(&result))[1] // the address of the type, which never moves
	last := &recent[key/64%uintptr(len(recent))]
	if t := last.Load(); t != nil && t.key == key {
		return t
	}
	return findValueType(result, key, last)
}

func findValueType(result reflect.Type, key uintptr, last *atomic.Pointer[ValueType]) *ValueType {
	t, ok := valueTypes.Load(result)
	if !ok {
		val := result.Elem().Field(1).Type
		t, _ = valueTypes.LoadOrStore(result, &ValueType{Type: val, result: result, key: key, gated: hasPointers(val)})
	}
	last.Store(t.(*ValueType))
	return t.(*ValueType)
}

// Gated reports whether values hold pointers: see Future.Init.
func (t *ValueType) Gated() bool { return t.gated }

// At is the value of the type at p; it can be set.
func (t *ValueType) At(p unsafe.Pointer) reflect.Value { return reflect.NewAt(t.Type, p).Elem() }

// Nothing reports whether the type is that of no argument and no result.
func (t *ValueType) Nothing() bool { return t.Type.Kind() == reflect.Struct && t.Type.NumField() == 0 }

// make makes a Result and returns its Future.
func (t *ValueType) make() *Future { return (*Future)(reflect.New(t.result.Elem()).UnsafePointer()) }

// makeFetched makes a fetched with its future.
func (t *ValueType) makeFetched() *fetched {
	t.once.Do(func() {
		t.double = reflect.StructOf([]reflect.StructField{{Name: "Work", Type: reflect.TypeFor[fetched]()}, {Name: "Result", Type: t.result.Elem()}})
		t.second = t.double.Field(1).Offset
	})
	o := (*fetched)(reflect.New(t.double).UnsafePointer())
	o.future = (*Future)(unsafe.Add(unsafe.Pointer(o), t.second))
	return o
}

// valueType is that of the Result which c is in, nil where it is in none.
func (c *Future) valueType() *ValueType {
	if t, ok := c.work.(typed); ok {
		return t.ValueType()
	}
	return nil
}

// value is the value of c, which is in a Result of t; it can be set.
func (c *Future) value(t *ValueType) reflect.Value {
	return t.At(c.ValueAt())
}

// pointer is a *T to the value.
func (c *Future) pointer(t *ValueType) any { return c.value(t).Addr().Interface() }
