package tasks

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/taskengine"
)

// Define makes fn a task under name, in the process-wide table. Names are explicit and stable: they are how another
// node, or the next version of the program, finds the function. A bad definition (empty or duplicate name, nil fn,
// a type that cannot travel) is reported by system.New with its file and line.
func Define[A, R any](name string, fn func(context.Context, A) (R, error)) Task[A, R] {
	return Task[A, R]{k: taskengine.Define(core.DefaultTable, name, fn)}
}

// Define0 makes a task of a function without parameters.
func Define0[R any](name string, fn func(context.Context) (R, error)) Task0[R] {
	return Task0[R]{k: taskengine.Define0(core.DefaultTable, name, fn)}
}

// Define2 makes a task of a function with two parameters.
func Define2[A, B, R any](name string, fn func(context.Context, A, B) (R, error)) Task2[A, B, R] {
	return Task2[A, B, R]{k: taskengine.Define2(core.DefaultTable, name, fn)}
}

// Define3 makes a task of a function with three parameters.
func Define3[A, B, C, R any](name string, fn func(context.Context, A, B, C) (R, error)) Task3[A, B, C, R] {
	return Task3[A, B, C, R]{k: taskengine.Define3(core.DefaultTable, name, fn)}
}

// DefineIn is Define in a table of your own, for tests; give the table to system.Config.Table.
func DefineIn[A, R any](t *raysys.Table, name string, fn func(context.Context, A) (R, error)) Task[A, R] {
	return Task[A, R]{k: taskengine.Define(t, name, fn)}
}

// Define0In is Define0 in a table of your own.
func Define0In[R any](t *raysys.Table, name string, fn func(context.Context) (R, error)) Task0[R] {
	return Task0[R]{k: taskengine.Define0(t, name, fn)}
}

// Define2In is Define2 in a table of your own.
func Define2In[A, B, R any](t *raysys.Table, name string, fn func(context.Context, A, B) (R, error)) Task2[A, B, R] {
	return Task2[A, B, R]{k: taskengine.Define2(t, name, fn)}
}

// Define3In is Define3 in a table of your own.
func Define3In[A, B, C, R any](t *raysys.Table, name string, fn func(context.Context, A, B, C) (R, error)) Task3[A, B, C, R] {
	return Task3[A, B, C, R]{k: taskengine.Define3(t, name, fn)}
}
