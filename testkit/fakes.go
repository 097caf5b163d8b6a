package testkit

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/tasks"
)

// ErrNotFaked is the error of a call of a method that has no fake, of a kind of which another method has one.
var ErrNotFaked = detour.ErrNotFaked

// Fake has fn run in place of the method f, on all nodes of the Kit: key is that of the grain. Calls are otherwise what they are: they are
// placed, wait for their turn, have their deadline and pass filters, and what they carry goes through the codec. Calls of different
// grains run fn at the same time. For a method without result, of grains.Action, R is struct{}.
//
// The grains of the kind are then none of the program's: no State is loaded or stored, OnActivate and OnDeactivate do not run, a Durable kind
// does not remember calls, and methods without a fake fail with ErrNotFaked. What the kind asks for by grains.Holds the nodes must have.
//
// A second fake of the method, a nil fn and a method of another table fail the test. So does Processes: other processes cannot be given fn.
func Fake[G, A, R any](f grains.Func[G, A, R], fn func(ctx context.Context, key string, arg A) (R, error)) Option {
	return fake(methodOf(&f), fn == nil, func(ctx context.Context, key string, arg unsafe.Pointer) (R, error) { return fn(ctx, key, *(*A)(arg)) })
}

// Fake0 is Fake for a method without argument.
func Fake0[G, R any](f grains.Func0[G, R], fn func(ctx context.Context, key string) (R, error)) Option {
	return fake(methodOf(&f), fn == nil, func(ctx context.Context, key string, _ unsafe.Pointer) (R, error) { return fn(ctx, key) })
}

// FakeTask has fn run in place of the function of task k, on all nodes of the Kit: each attempt, with the resources that the task asks for. What is
// wrong is what is wrong with a Fake.
func FakeTask[A, R any](k tasks.Task[A, R], fn func(context.Context, A) (R, error)) Option {
	return fake(taskOf(&k), fn == nil, func(ctx context.Context, _ string, arg unsafe.Pointer) (R, error) { return fn(ctx, *(*A)(arg)) })
}

// FakeTask0 is FakeTask for a function without parameters.
func FakeTask0[R any](k tasks.Task0[R], fn func(context.Context) (R, error)) Option {
	return fake(taskOf(&k), fn == nil, func(ctx context.Context, _ string, _ unsafe.Pointer) (R, error) { return fn(ctx) })
}

// FakeTask2 is FakeTask for a function of two parameters.
func FakeTask2[A, B, R any](k tasks.Task2[A, B, R], fn func(context.Context, A, B) (R, error)) Option {
	return fake(taskOf(&k), fn == nil, func(ctx context.Context, _ string, arg unsafe.Pointer) (R, error) {
		a := (*struct { // as the engine lays them out
			A A
			B B
		})(arg)
		return fn(ctx, a.A, a.B)
	})
}

// FakeTask3 is FakeTask for a function of three parameters.
func FakeTask3[A, B, C, R any](k tasks.Task3[A, B, C, R], fn func(context.Context, A, B, C) (R, error)) Option {
	return fake(taskOf(&k), fn == nil, func(ctx context.Context, _ string, arg unsafe.Pointer) (R, error) {
		a := (*struct { // as the engine lays them out
			A A
			B B
			C C
		})(arg)
		return fn(ctx, a.A, a.B, a.C)
	})
}

// methodOf and taskOf return the line of the function table that a handle is for; nil for the zero value.
func methodOf(handle any) *core.Entry {
	return grainengine.EntryOf(*(*grainengine.Func)(core.HandleIn(handle)))
}

func taskOf(handle any) *core.Entry {
	return taskengine.EntryOf(*(*taskengine.Task)(core.HandleIn(handle)))
}

// fake has fn stand in for e. isNil says that the test's function is nil.
func fake[R any](e *core.Entry, isNil bool, fn func(ctx context.Context, key string, arg unsafe.Pointer) (R, error)) Option {
	return func(o *options) {
		switch _, twice := o.fakes[e]; {
		case e == nil:
			o.bad = errors.Join(o.bad, errors.New("a fake of the zero handle: give one that Define or Method has made"))
		case isNil:
			o.bad = errors.Join(o.bad, fmt.Errorf("a fake of %s is nil: give a function", e))
		case twice:
			o.bad = errors.Join(o.bad, fmt.Errorf("two fakes of %s: give one", e))
		case o.fakes == nil:
			o.fakes = map[*core.Entry]detour.Fake{}
		}
		if o.bad != nil {
			return
		}
		o.fakes[e] = func(ctx context.Context, key string, arg, result unsafe.Pointer) error {
			v, err := fn(ctx, key, arg)
			if err == nil {
				*(*R)(result) = v
			}
			return err
		}
	}
}

// checkFakes says what is wrong with the fakes, and with their table.
func (o *options) checkFakes() error {
	table := o.cfg.Table
	if table == nil {
		table = core.DefaultTable
	}
	bad := o.bad
	for e := range o.fakes {
		if !e.In(table) {
			bad = errors.Join(bad, e.Unknown())
		}
	}
	return bad
}
