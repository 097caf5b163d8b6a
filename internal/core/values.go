package core

import (
	"context"
	"reflect"
	"sync"
)

// Values are the declared request values a turn carries, newest first. They are immutable.
type Values struct {
	next *Values
	name string
	v    any
}

// DeclareKey notes the type of the values under name.
func DeclareKey(name string, t reflect.Type) { keyTypes.Store(name, t) }

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
