package raysys

import (
	"errors"
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
// error type that errors.As shall find on another node, or the interface type of such a field. An any needs none, nor do
// bool, string, []byte, numbers, []any and map[string]any in it. Call it from init or
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

// sentinels are the error values that keep their identity across nodes.
var sentinels struct {
	sync.RWMutex
	byName map[string]error
	order  []string
}

// RegisterError names a sentinel for the wire, so that errors.Is(err, sentinel) holds also for an error that came from
// another node. Call it from init or a package variable, with a name that stays stable:
//
//	var ErrNoFunds = errors.New("no funds")
//	var _ = raysys.RegisterError("bank.no-funds", ErrNoFunds)
//
// The sentinels of raysys are registered, and so are the usual ones of the standard library (io.EOF, fs.ErrNotExist,
// context.DeadlineExceeded and their like). A name registered twice for different errors is a bad definition.
func RegisterError(name string, sentinel error) struct{} {
	sentinels.Lock()
	defer sentinels.Unlock()
	if sentinels.byName == nil {
		sentinels.byName = map[string]error{}
	}
	old, taken := sentinels.byName[name]
	switch {
	case name == "" || sentinel == nil || !reflect.TypeOf(sentinel).Comparable():
		DefaultTable.Add("error", name, 0, fmt.Errorf("register error %v: give a name and a comparable error value", sentinel), 1)
	case taken && old != sentinel:
		DefaultTable.Add("error", name, 0, fmt.Errorf("register error %v: the name belongs to %v", sentinel, old), 1)
	case !taken:
		sentinels.byName[name] = sentinel
		sentinels.order = append(sentinels.order, name)
	}
	return struct{}{}
}

// RegisteredError returns the sentinel registered under name, nil when there is none. For runtimes.
func RegisteredError(name string) error {
	sentinels.RLock()
	defer sentinels.RUnlock()
	return sentinels.byName[name]
}

// RegisteredErrors returns the names of the sentinels that err is. For runtimes.
func RegisteredErrors(err error) (names []string) {
	sentinels.RLock()
	defer sentinels.RUnlock()
	for _, n := range sentinels.order {
		if errors.Is(err, sentinels.byName[n]) {
			names = append(names, n)
		}
	}
	return names
}
