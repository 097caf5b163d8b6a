package raysys

import (
	"context"
	"reflect"
	"sync"
)

// Values are the declared request values a turn carries, newest first. They are immutable. For runtimes.
type Values struct {
	next *Values
	name string
	v    any
}

// Key declares a request value that travels with every task and grain call submitted under a context that carries it:
// a tenant, a trace tag. Declare keys as package variables with stable names; values must be encodable. Values set
// with context.WithValue do not travel.
type Key[T any] struct{ name string }

// NewKey declares the request value name.
func NewKey[T any](name string) Key[T] {
	keyTypes.Store(name, reflect.TypeFor[T]())
	return Key[T]{name}
}

// keyTypes are the declared keys, by name: how a value that arrives from another node finds its type.
var keyTypes sync.Map // string -> reflect.Type

// KeyType returns the type of the values declared under name, nil when no key of this program has it. For runtimes.
func KeyType(name string) reflect.Type {
	t, _ := keyTypes.Load(name)
	r, _ := t.(reflect.Type)
	return r
}

// All calls f for each value, newest first. For runtimes.
func (vs *Values) All(f func(name string, v any) bool) {
	for ; vs != nil; vs = vs.next {
		if !f(vs.name, vs.v) {
			return
		}
	}
}

// Add returns the list with one more value in front. For runtimes.
func (vs *Values) Add(name string, v any) *Values { return &Values{vs.without(name), name, v} }

// With returns a context under which submissions carry v.
func (k Key[T]) With(ctx context.Context, v T) context.Context {
	old, _ := ctx.Value(valuesKey{}).(*Values)
	return context.WithValue(ctx, valuesKey{}, &Values{old.without(k.name), k.name, v})
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

// From returns the value that ctx carries.
func (k Key[T]) From(ctx context.Context) (T, bool) {
	vs, _ := ctx.Value(valuesKey{}).(*Values)
	for ; vs != nil; vs = vs.next {
		if vs.name == k.name {
			v, ok := vs.v.(T)
			return v, ok
		}
	}
	var zero T
	return zero, false
}
