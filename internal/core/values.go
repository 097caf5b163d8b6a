package core

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Values are the declared request values a turn carries, newest first. They are immutable.
type Values struct {
	next *Values
	name string
	v    any
}

// DeclareKey notes the type of the values under name. The first counts: values of another do not travel.
func DeclareKey(name string, t reflect.Type) { keyTypes.LoadOrStore(name, t) }

// keyTypes are the declared keys, by name: how a value that arrives from another node finds its type.
var keyTypes sync.Map // string -> reflect.Type

// KeyType returns the type of the values declared under name, nil when no key of this program has it.
func KeyType(name string) reflect.Type {
	t, _ := keyTypes.Load(name)
	r, _ := t.(reflect.Type)
	return r
}

// All calls f for each value, newest first.
func (vs *Values) All(f func(name string, v any) bool) {
	for ; vs != nil; vs = vs.next {
		if !f(vs.name, vs.v) {
			return
		}
	}
}

// Add returns the list with one more value in front.
func (vs *Values) Add(name string, v any) *Values { return &Values{vs.without(name), name, v} }

// WithValue returns a context under which submissions carry v.
func WithValue(ctx context.Context, name string, v any) context.Context {
	old, _ := ctx.Value(valuesKey{}).(*Values)
	return context.WithValue(ctx, valuesKey{}, old.Add(name, v))
}

// without returns the list with no value under name, so that a chain of tasks that each set the same key carries one.
func (vs *Values) without(name string) *Values {
	switch {
	case vs == nil:
		return nil
	case vs.name == name:
		return vs.next
	}
	rest := vs.next.without(name)
	if rest == vs.next {
		return vs
	}
	return &Values{rest, vs.name, vs.v}
}

// ValueOf returns the value that ctx carries under name.
func ValueOf(ctx context.Context, name string) (v any, ok bool) {
	vs, _ := ctx.Value(valuesKey{}).(*Values)
	for ; vs != nil; vs = vs.next {
		if vs.name == name {
			return vs.v, true
		}
	}
	return nil, false
}

// TraceKey names the value that says below which span work is: a traceparent of W3C Trace Context, version 00, of a
// span that is sampled. It is empty where it was decided that the trace is not. It travels as a ContextKey does.
const TraceKey = "raysys.traceparent"

// NotSampled is what Job.Span returns for a span that is not sampled.
const NotSampled = "-"

// FiredKey names the value by which work is known that a schedule has made.
const FiredKey = "raysys.schedule"

func init() { DeclareKey(TraceKey, reflect.TypeFor[string]()) }

// TraceOf returns the value of TraceKey, and whether there is one.
func TraceOf(vs *Values) (parent string, decided bool) {
	for ; vs != nil; vs = vs.next {
		if vs.name == TraceKey {
			parent, decided = vs.v.(string)
			return parent, decided
		}
	}
	return "", false
}

// traced adds to the values of ctx, which is not t's own, the span that the program has put there. One span gives one
// list: by its values the turn of a context is known.
func traced(ctx context.Context, t *Turn, values *Values) *Values {
	parent := t.job.Span(ctx)
	if parent == "" {
		return values
	}
	if parent == NotSampled {
		parent = ""
	}
	if has, _ := TraceOf(values); has == parent {
		return values
	}
	rest := values.without(TraceKey)
	if d := t.last.Load(); d != nil && d.values != nil && d.values.next == rest {
		if has, _ := TraceOf(d.values); has == parent {
			return d.values
		}
	}
	return &Values{rest, TraceKey, parent}
}

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

// OfModel reports whether a device of model is one that asked, the option GPUModel, means: each word of asked is one of model,
// in any case. "H100" means an "NVIDIA H100 80GB HBM3", "A10" no "NVIDIA A100". An instance of a divided device (MIG) is meant
// only where asked has that word too.
func OfModel(model, asked string) bool {
	if asked == "" || asked == model {
		return true
	}
	has, wants := words(model), words(asked)
	if slices.Contains(has, "mig") && !slices.Contains(wants, "mig") {
		return false
	}
	return !slices.ContainsFunc(wants, func(w string) bool { return !slices.Contains(has, w) })
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune(" -_/", r) })
}

// pointerful caches, per composite type, whether its values hold pointers.
var pointerful sync.Map // reflect.Type -> bool

// HasPointers reports whether values of T hold memory that Release could free.
func HasPointers[T any]() bool { return hasPointers(reflect.TypeFor[T]()) }

func hasPointers(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k <= reflect.Complex128:
		return false
	case k != reflect.Array && k != reflect.Struct:
		return true
	}
	if v, ok := pointerful.Load(t); ok {
		return v.(bool)
	}
	has := false
	if t.Kind() == reflect.Array {
		has = t.Len() > 0 && hasPointers(t.Elem())
	} else {
		for i := range t.NumField() {
			has = has || hasPointers(t.Field(i).Type)
		}
	}
	pointerful.Store(t, has)
	return has
}

// callSite names the file and line skip frames above its caller, for reports about a value.
func callSite(skip int) string {
	_, file, line, ok := runtime.Caller(skip + 1)
	if !ok {
		return ""
	}
	return fmt.Sprintf(" at %s:%d", file, line)
}

// CallSite names the program's line, skip frames above the caller.
func CallSite(skip int) string { return callSite(skip + 1) }
