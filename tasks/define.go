package tasks

import (
	"context"
	"errors"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// Task is a typed handle of a function of one parameter. Make it once, in a package variable; it is immutable.
type Task[A, R any] struct{ spec *spec[A, R] }

// Task0, Task2 and Task3 are the handles of functions with none, two and three parameters.
type (
	Task0[R any]          struct{ t Task[none, R] }
	Task2[A, B, R any]    struct{ t Task[args2[A, B], R] }
	Task3[A, B, C, R any] struct{ t Task[args3[A, B, C], R] }
)

type (
	none            struct{}
	args2[A, B any] struct {
		A A
		B B
	}
	args3[A, B, C any] struct {
		A A
		B B
		C C
	}
)

// definition is the untyped part of a task that all its handles share.
type definition struct {
	entry *core.Entry
	arg   *codec.Plan
	res   *codec.Plan
	fixed bool // arguments hold nothing beyond their own size
	refs  bool // arguments may hold references
	// params are the parameters of the argument it is given a pointer to, as references that refer to nothing yet.
	params func(arg any) []param
}

// Define makes fn a task under name, in the process-wide table. Names are explicit and stable: they are how another
// node, or the next version of the program, finds the function. A bad definition (empty or duplicate name, nil fn,
// a type that cannot travel) is reported by system.New with its file and line.
func Define[A, R any](name string, fn func(context.Context, A) (R, error)) Task[A, R] {
	return define(core.DefaultTable, name, fn == nil, fn, 1)
}

// Define0 makes a task of a function without parameters.
func Define0[R any](name string, fn func(context.Context) (R, error)) Task0[R] {
	return Task0[R]{define0(core.DefaultTable, name, fn)}
}

// Define2 makes a task of a function with two parameters.
func Define2[A, B, R any](name string, fn func(context.Context, A, B) (R, error)) Task2[A, B, R] {
	return Task2[A, B, R]{define2(core.DefaultTable, name, fn)}
}

// Define3 makes a task of a function with three parameters.
func Define3[A, B, C, R any](name string, fn func(context.Context, A, B, C) (R, error)) Task3[A, B, C, R] {
	return Task3[A, B, C, R]{define3(core.DefaultTable, name, fn)}
}

// DefineIn is Define in a table of your own, for tests; give the table to system.Config.Table.
func DefineIn[A, R any](t *raysys.Table, name string, fn func(context.Context, A) (R, error)) Task[A, R] {
	return define(t, name, fn == nil, fn, 1)
}

// Define0In is Define0 in a table of your own.
func Define0In[R any](t *raysys.Table, name string, fn func(context.Context) (R, error)) Task0[R] {
	return Task0[R]{define0(t, name, fn)}
}

// Define2In is Define2 in a table of your own.
func Define2In[A, B, R any](t *raysys.Table, name string, fn func(context.Context, A, B) (R, error)) Task2[A, B, R] {
	return Task2[A, B, R]{define2(t, name, fn)}
}

// Define3In is Define3 in a table of your own.
func Define3In[A, B, C, R any](t *raysys.Table, name string, fn func(context.Context, A, B, C) (R, error)) Task3[A, B, C, R] {
	return Task3[A, B, C, R]{define3(t, name, fn)}
}

func define0[R any](t *raysys.Table, name string, fn func(context.Context) (R, error)) Task[none, R] {
	return define(t, name, fn == nil, func(ctx context.Context, _ none) (R, error) { return fn(ctx) }, 2)
}

func define2[A, B, R any](t *raysys.Table, name string, fn func(context.Context, A, B) (R, error)) Task[args2[A, B], R] {
	k := define(t, name, fn == nil, func(ctx context.Context, a args2[A, B]) (R, error) { return fn(ctx, a.A, a.B) }, 2)
	k.spec.params = func(arg any) []param {
		a := arg.(*args2[A, B])
		return []param{&slot[A]{at: &a.A}, &slot[B]{at: &a.B}}
	}
	return k
}

func define3[A, B, C, R any](t *raysys.Table, name string, fn func(context.Context, A, B, C) (R, error)) Task[args3[A, B, C], R] {
	k := define(t, name, fn == nil, func(ctx context.Context, a args3[A, B, C]) (R, error) { return fn(ctx, a.A, a.B, a.C) }, 2)
	k.spec.params = func(arg any) []param {
		a := arg.(*args3[A, B, C])
		return []param{&slot[A]{at: &a.A}, &slot[B]{at: &a.B}, &slot[C]{at: &a.C}}
	}
	return k
}

func define[A, R any](t *raysys.Table, name string, isNil bool, fn func(context.Context, A) (R, error), skip int) Task[A, R] {
	var bad error
	if isNil {
		bad = errors.New("the function is nil")
	}
	arg, err := codec.PlanOf(reflect.TypeFor[A]())
	bad = errors.Join(bad, wrapType("argument", err))
	res, err := codec.PlanOf(reflect.TypeFor[R]())
	bad = errors.Join(bad, wrapType("result", err))
	d := &definition{arg: arg, res: res, fixed: true, params: func(a any) []param { return []param{&slot[A]{at: a.(*A)}} }}
	var print uint64
	if arg != nil && res != nil {
		d.fixed, d.refs = arg.Fixed(), arg.HasRefs()
		print = arg.Fingerprint()*31 + res.Fingerprint()
	}
	d.entry = t.Add("task", name, print, bad, skip+1)
	s := newSpec(&spec[A, R]{definition: d, fn: fn, opts: core.NewOptions[core.Option](nil)}, nil)
	d.entry.Impl = s // how tasks of other nodes find it
	return Task[A, R]{s}
}

func wrapType(what string, err error) error {
	if err == nil {
		return nil
	}
	return &definitionError{what, err}
}

type definitionError struct {
	what string
	err  error
}

func (e *definitionError) Error() string { return e.what + ": " + e.err.Error() }
func (e *definitionError) Unwrap() error { return e.err }

func newSpec[A, R any](s *spec[A, R], opts []raysys.Option) *spec[A, R] {
	n := *s
	n.opts = core.With(s.opts, opts)
	n.need = needOf(raysys.Resources(n.opts.Resources))
	n.common = n.oneCPU() && n.opts.Strategy == "" && len(n.opts.Labels) == 0
	n.gated = core.HasPointers[R]()
	return &n
}

// oneCPU reports whether the task asks for no more and no less than one CPU.
func (s *spec[A, R]) oneCPU() bool {
	return s.need.cpu == oneCPU && s.need.gpu == 0 && s.need.memory == 0 && len(s.need.custom) == 0
}

// size returns the bytes an argument holds beyond the record.
func (d *definition) size(arg any) int64 { return int64(d.arg.Size(reflect.ValueOf(arg).Elem())) }
