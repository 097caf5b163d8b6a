package core

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

// Register is raysys.Register, for its caller's caller.
func Register(t reflect.Type, name string) struct{} {
	registered.Lock()
	defer registered.Unlock()
	if registered.byName == nil {
		registered.byName, registered.byType = map[string]reflect.Type{}, map[reflect.Type]string{}
	}
	oldT, hasName := registered.byName[name]
	oldN, hasType := registered.byType[t]
	switch {
	case hasName && oldT != t:
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s: the name belongs to %s", t, oldT), 2)
	case hasType && oldN != name:
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s: the type is registered as %q", t, oldN), 2)
	case name == "":
		DefaultTable.Add("type", name, 0, fmt.Errorf("register type %s", t), 2)
	default:
		registered.byName[name], registered.byType[t] = t, name
	}
	return struct{}{}
}

// RegisteredType returns the type registered under name.
func RegisteredType(name string) (reflect.Type, bool) {
	registered.RLock()
	defer registered.RUnlock()
	t, ok := registered.byName[name]
	return t, ok
}

// RegisteredName returns the name t is registered under.
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

// RegisterError is raysys.RegisterError, for its caller's caller.
func RegisterError(name string, sentinel error) struct{} {
	sentinels.Lock()
	defer sentinels.Unlock()
	if sentinels.byName == nil {
		sentinels.byName = map[string]error{}
	}
	old, taken := sentinels.byName[name]
	switch {
	case name == "" || sentinel == nil || !reflect.TypeOf(sentinel).Comparable():
		DefaultTable.Add("error", name, 0, fmt.Errorf("register error %v: give a name and a comparable error value", sentinel), 2)
	case taken && old != sentinel:
		DefaultTable.Add("error", name, 0, fmt.Errorf("register error %v: the name belongs to %v", sentinel, old), 2)
	case !taken:
		sentinels.byName[name] = sentinel
		sentinels.order = append(sentinels.order, name)
	}
	return struct{}{}
}

// Sentinel makes an error that programs match by errors.Is, and registers it for the wire: a package above says both in one line.
func Sentinel(name, text string) error {
	err := errors.New(text)
	RegisterError(name, err)
	return err
}

// RegisteredError returns the sentinel registered under name, nil when there is none.
func RegisteredError(name string) error {
	sentinels.RLock()
	defer sentinels.RUnlock()
	return sentinels.byName[name]
}

// is is errors.Is; an error whose methods panic is nothing.
func is(err, target error) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return errors.Is(err, target)
}

// RegisteredErrors returns the names of the sentinels that err is.
func RegisteredErrors(err error) (names []string) {
	sentinels.RLock()
	defer sentinels.RUnlock()
	for _, n := range sentinels.order {
		if is(err, sentinels.byName[n]) {
			names = append(names, n)
		}
	}
	return names
}
