package raysys

import (
	"context"
	"reflect"

	"github.com/raysys/raysys/internal/core"
)

// ContextKey declares a request value that travels with every task and grain call submitted under a context that carries it:
// a tenant, a trace tag. Declare keys as package variables with stable names; values must be encodable. Values set
// with context.WithValue do not travel.
type ContextKey[T any] struct{ name string }

// NewContextKey declares the request value name. A name is for one type: what is submitted under a value of a second
// key of that name, for another type, fails on its way to another node with ErrEncode.
func NewContextKey[T any](name string) ContextKey[T] {
	core.DeclareKey(name, reflect.TypeFor[T]())
	return ContextKey[T]{name}
}

// With returns a context under which submissions carry v.
func (k ContextKey[T]) With(ctx context.Context, v T) context.Context {
	return core.WithValue(ctx, k.name, v)
}

// From returns the value that ctx carries.
func (k ContextKey[T]) From(ctx context.Context) (T, bool) {
	found, _ := core.ValueOf(ctx, k.name)
	v, ok := found.(T)
	return v, ok
}
