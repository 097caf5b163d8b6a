package taskengine

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskwire"
)

// Task is the handle of a function: what tasks.Task and its siblings are made of. They know the types of the function and give them
// to functions of this package.
type Task struct{ spec *spec }

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

	value      *core.ValueType // of results
	argType    *core.ValueType
	argOffset  uintptr // of the argument, in a record
	recordSize uintptr // with value and argument
	inSize     uintptr // the same of an inbound task
	tally      tally.Cache

	// What is compiled for the types of each function. call calls the program's and puts the value into its place, records makes n
	// records, and empty drops the argument of one.
	call    func(ctx context.Context, r *record) error
	records func(n int, inbound bool) unsafe.Pointer
	empty   func(r *record)
}

// Define is tasks.DefineIn. It and its siblings are called by package tasks alone, in one line: reports of a bad
// definition name the line that calls tasks.
func Define[A, R any](t *raysys.Table, name string, fn func(context.Context, A) (R, error)) Task {
	return define(t, name, fn == nil, fn)
}

// Define0 is tasks.Define0In.
func Define0[R any](t *raysys.Table, name string, fn func(context.Context) (R, error)) Task {
	return define(t, name, fn == nil, func(ctx context.Context, _ none) (R, error) { return fn(ctx) })
}

// Define2 is tasks.Define2In.
func Define2[A, B, R any](t *raysys.Table, name string, fn func(context.Context, A, B) (R, error)) Task {
	var a args2[A, B]
	return define(t, name, fn == nil, func(ctx context.Context, a args2[A, B]) (R, error) { return fn(ctx, a.A, a.B) },
		field{core.TypeOf[A](), 0}, field{core.TypeOf[B](), unsafe.Offsetof(a.B)})
}

// Define3 is tasks.Define3In.
func Define3[A, B, C, R any](t *raysys.Table, name string, fn func(context.Context, A, B, C) (R, error)) Task {
	var a args3[A, B, C]
	return define(t, name, fn == nil, func(ctx context.Context, a args3[A, B, C]) (R, error) { return fn(ctx, a.A, a.B, a.C) },
		field{core.TypeOf[A](), 0}, field{core.TypeOf[B](), unsafe.Offsetof(a.B)}, field{core.TypeOf[C](), unsafe.Offsetof(a.C)})
}

// EntryOf returns the line of the function table that the task is; nil for the zero Task.
func EntryOf(k Task) *core.Entry {
	if k.spec == nil {
		return nil
	}
	return k.spec.entry
}

// programsCaller is how many frames above a function that is called by the exported ones of this package the program
// stands: that one, and the one of package tasks, lie between.
const programsCaller = 3

func define[A, R any](t *raysys.Table, name string, isNil bool, fn func(context.Context, A) (R, error), fields ...field) Task {
	var r recordOf[A, R]
	return declare(t, name, isNil, &definition{
		fields: fields, value: core.TypeOf[R](), argType: core.TypeOf[A](),
		argOffset: unsafe.Offsetof(r.arg), recordSize: unsafe.Sizeof(r), inSize: unsafe.Sizeof(inboundOf[A, R]{}),
		call: func(ctx context.Context, r *record) error {
			at := (*recordOf[A, R])(unsafe.Pointer(r))
			v, err := fn(ctx, at.arg)
			if err == nil {
				at.val = v
			}
			return err
		},
		records: func(n int, inbound bool) unsafe.Pointer {
			if inbound {
				return unsafe.Pointer(unsafe.SliceData(make([]inboundOf[A, R], n)))
			}
			return unsafe.Pointer(unsafe.SliceData(make([]recordOf[A, R], n)))
		},
		empty: func(r *record) {
			var zero A
			(*recordOf[A, R])(unsafe.Pointer(r)).arg = zero
		},
	})
}

// declare enters the function in the table.
func declare(t *raysys.Table, name string, isNil bool, d *definition) Task {
	var bad error
	if isNil {
		bad = errors.New("the function is nil")
	}
	arg, err := codec.PlanOf(d.argType.Type)
	bad = errors.Join(bad, wrapType("argument", err))
	res, err := codec.PlanOf(d.value.Type)
	bad = errors.Join(bad, wrapType("result", err))
	d.arg, d.res, d.fixed = arg, res, true
	if d.fields == nil {
		d.fields = []field{{of: d.argType}}
	}
	var print uint64
	if arg != nil && res != nil {
		d.fixed, d.refs = arg.Fixed(), arg.HasRefs()
		print = arg.Fingerprint()*31 + res.Fingerprint()
	}
	d.entry = t.Add("task", name, print, bad, programsCaller+1)
	s := newSpec(&spec{definition: d, opts: core.NewOptions[core.Option](nil)}, nil)
	d.entry.Impl = s // how tasks of other nodes find it
	return Task{s}
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

func newSpec(s *spec, opts []raysys.Option) *spec {
	n := *s
	n.opts = core.With(s.opts, opts)
	if n.opts.Key != "" {
		n.opts.Fail(fmt.Errorf("%w: Key(%q) is for calls of durable grains", raysys.ErrBadOption, n.opts.Key))
	}
	n.need = ledger.Of(n.opts.Resources)
	n.need.Bundle = n.opts.Bundle
	n.labels = string(taskwire.AppendLabels(nil, n.opts.Labels))
	n.plain = n.oneCPU() && n.opts.Strategy == "" && !n.opts.Conditional() && !n.opts.Bundle.Captures
	if n.opts.Conditional() && n.opts.Bundle.Group != "" {
		n.opts.Fail(core.ErrBesideBundle)
	}
	return &n
}

// oneCPU reports whether the task asks for no more and no less than one CPU.
func (s *spec) oneCPU() bool {
	return s.need.IsCPU(oneCPU)
}
