package taskengine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// Task is the handle of a function of one parameter: what tasks.Task is made of.
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
	entry  *core.Entry
	arg    *codec.Plan
	res    *codec.Plan
	fixed  bool    // arguments hold nothing beyond their own size
	refs   bool    // arguments may hold references
	fields []field // the parameters in the argument
	runAt  func(c *core.Future, s *core.CPUSlot)
}

// Define is tasks.DefineIn. It and its siblings are called by package tasks alone, in one line: reports of a bad
// definition name the line that calls tasks.
func Define[A, R any](t *raysys.Table, name string, fn func(context.Context, A) (R, error)) Task[A, R] {
	return define(t, name, fn == nil, fn)
}

// Define0 is tasks.Define0In.
func Define0[R any](t *raysys.Table, name string, fn func(context.Context) (R, error)) Task0[R] {
	return Task0[R]{define(t, name, fn == nil, func(ctx context.Context, _ none) (R, error) { return fn(ctx) })}
}

// Define2 is tasks.Define2In.
func Define2[A, B, R any](t *raysys.Table, name string, fn func(context.Context, A, B) (R, error)) Task2[A, B, R] {
	k := define(t, name, fn == nil, func(ctx context.Context, a args2[A, B]) (R, error) { return fn(ctx, a.A, a.B) })
	var a args2[A, B]
	k.spec.fields = []field{{core.TypeOf[A](), 0}, {core.TypeOf[B](), unsafe.Offsetof(a.B)}}
	return Task2[A, B, R]{k}
}

// Define3 is tasks.Define3In.
func Define3[A, B, C, R any](t *raysys.Table, name string, fn func(context.Context, A, B, C) (R, error)) Task3[A, B, C, R] {
	k := define(t, name, fn == nil, func(ctx context.Context, a args3[A, B, C]) (R, error) { return fn(ctx, a.A, a.B, a.C) })
	var a args3[A, B, C]
	k.spec.fields = []field{{core.TypeOf[A](), 0}, {core.TypeOf[B](), unsafe.Offsetof(a.B)}, {core.TypeOf[C](), unsafe.Offsetof(a.C)}}
	return Task3[A, B, C, R]{k}
}

// programsCaller is how many frames above a function that is called by the exported ones of this package the program
// stands: that one, and the one of package tasks, lie between.
const programsCaller = 3

func define[A, R any](t *raysys.Table, name string, isNil bool, fn func(context.Context, A) (R, error)) Task[A, R] {
	var bad error
	if isNil {
		bad = errors.New("the function is nil")
	}
	arg, err := codec.PlanOf(reflect.TypeFor[A]())
	bad = errors.Join(bad, wrapType("argument", err))
	res, err := codec.PlanOf(reflect.TypeFor[R]())
	bad = errors.Join(bad, wrapType("result", err))
	d := &definition{arg: arg, res: res, fixed: true, fields: []field{{of: core.TypeOf[A]()}}, runAt: runAt[A, R]}
	var print uint64
	if arg != nil && res != nil {
		d.fixed, d.refs = arg.Fixed(), arg.HasRefs()
		print = arg.Fingerprint()*31 + res.Fingerprint()
	}
	d.entry = t.Add("task", name, print, bad, programsCaller)
	s := newSpec(&spec[A, R]{definition: d, fn: fn, opts: core.NewOptions[core.Option](nil)}, nil)
	d.entry.Impl = s // how tasks of other nodes find it
	return Task[A, R]{s}
}

// runAt runs the record that c is in.
func runAt[A, R any](c *core.Future, s *core.CPUSlot) { (*record[A, R])(unsafe.Pointer(c)).run(s) }

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
	if n.opts.Key != "" {
		n.opts.Fail(fmt.Errorf("%w: Key(%q) is for calls of durable grains", raysys.ErrBadOption, n.opts.Key))
	}
	n.need = ledger.Of(n.opts.Resources)
	n.need.Bundle = n.opts.Bundle
	n.labels = string(appendLabels(nil, n.opts.Labels))
	n.plain = n.oneCPU() && n.opts.Strategy == "" && !n.opts.Conditional() && !n.opts.Bundle.Captures
	if n.opts.Conditional() && n.opts.Bundle.Group != "" {
		n.opts.Fail(core.ErrBesideBundle)
	}
	n.gated, n.value = core.HasPointers[R](), core.TypeOf[R]()
	return &n
}

// oneCPU reports whether the task asks for no more and no less than one CPU.
func (s *spec[A, R]) oneCPU() bool {
	return s.need.IsCPU(oneCPU)
}

// size returns the bytes an argument holds beyond the record.
func (d *definition) size(arg any) int64 { return int64(d.arg.Size(reflect.ValueOf(arg).Elem())) }
