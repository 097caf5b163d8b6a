package raysys

import (
	"fmt"
	"reflect"
	"sync"
)

// registered maps wire names to the concrete types that may stand in interface fields and as errors.
var registered struct {
	sync.RWMutex
	byName map[string]reflect.Type
	byType map[reflect.Type]string
}

// Register names a type for the wire: a concrete type that stands in interface fields of arguments and results, an
// error type that errors.As shall find on another node, or the interface type of such a field. Call it from init or
// a package variable, with a name that stays stable. A name or a type registered twice differently is a bad
// definition.
func Register[T any](name string) struct{} {
	t := reflect.TypeFor[T]()
	registered.Lock()
	defer registered.Unlock()
	if registered.byName == nil {
		registered.byName, registered.byType = map[string]reflect.Type{}, map[reflect.Type]string{}
	}
	oldT, hasName := registered.byName[name]
	oldN, hasType := registered.byType[t]
	switch {
	case hasName && oldT != t:
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s: the name belongs to %s", t, oldT), 1)
	case hasType && oldN != name:
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s: the type is registered as %q", t, oldN), 1)
	case name == "":
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s", t), 1)
	default:
		registered.byName[name], registered.byType[t] = t, name
	}
	return struct{}{}
}

// RegisteredType returns the type registered under name. For runtimes.
func RegisteredType(name string) (reflect.Type, bool) {
	registered.RLock()
	defer registered.RUnlock()
	t, ok := registered.byName[name]
	return t, ok
}

// RegisteredName returns the name t is registered under. For runtimes.
func RegisteredName(t reflect.Type) (string, bool) {
	registered.RLock()
	defer registered.RUnlock()
	n, ok := registered.byType[t]
	return n, ok
}
