package raysys

import (
	"context"
	"reflect"

	"github.com/raysys/raysys/internal/core"
)

// Key declares a request value that travels with every task and grain call submitted under a context that carries it:
// a tenant, a trace tag. Declare keys as package variables with stable names; values must be encodable. Values set
// with context.WithValue do not travel.
type Key[T any] struct{ name string }

// NewKey declares the request value name.
func NewKey[T any](name string) Key[T] {
	core.DeclareKey(name, reflect.TypeFor[T]())
	return Key[T]{name}
}

// With returns a context under which submissions carry v.
func (k Key[T]) With(ctx context.Context, v T) context.Context { return core.WithValue(ctx, k.name, v) }

// From returns the value that ctx carries.
func (k Key[T]) From(ctx context.Context) (T, bool) {
	found, _ := core.ValueOf(ctx, k.name)
	v, ok := found.(T)
	return v, ok
}
