package core

import (
	"reflect"
	"sync"
	"unsafe"
)

// ValueType is what plain code knows of the type T of a Result[T]. A method of a generic type is compiled for each type of value, called or
// not, so a Result has none: functions of this package take its Future, behind which the value lies.
type ValueType struct {
	Type   reflect.Type // T
	record reflect.Type // Result[T]
	gated  bool         // T holds pointers
}

// typed is a Work whose Future is that of a Result.
type typed interface{ ValueType() *ValueType }

// valueTypes are those that programs use: reflect.Type of Result[T] -> *ValueType
var valueTypes sync.Map

// TypeOf returns that of T, the same each time.
func TypeOf[T any]() *ValueType { return valueTypeOf(reflect.TypeOf((*Result[T])(nil)).Elem()) }

func valueTypeOf(record reflect.Type) *ValueType {
	if t, ok := valueTypes.Load(record); ok {
		return t.(*ValueType)
	}
	of := record.Field(1).Type
	t, _ := valueTypes.LoadOrStore(record, &ValueType{Type: of, record: record, gated: hasPointers(of)})
	return t.(*ValueType)
}

// make makes a Result and returns its Future.
func (t *ValueType) make() *Future { return (*Future)(reflect.New(t.record).UnsafePointer()) }

// valueAt is where the value of a Result lies, whatever its type: no type wants more than the alignment of a Future.
const valueAt = unsafe.Sizeof(Future{})

// valueType is that of the Result which c is in, nil where it is in none.
func (c *Future) valueType() *ValueType {
	if t, ok := c.work.(typed); ok {
		return t.ValueType()
	}
	return nil
}

// value is the value of c, which is in a Result of t; it can be set.
func (c *Future) value(t *ValueType) reflect.Value {
	return reflect.NewAt(t.Type, unsafe.Add(unsafe.Pointer(c), valueAt)).Elem()
}

// pointer is a *T to the value.
func (c *Future) pointer(t *ValueType) any { return c.value(t).Addr().Interface() }
