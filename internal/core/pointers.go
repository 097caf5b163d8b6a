package core

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
)

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
