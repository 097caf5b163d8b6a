package taskengine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/jsonfit"
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
	if n.opts.Key != "" || n.opts.FirstMade != 0 {
		n.opts.Fail(fmt.Errorf(
			"%w: Key(%q) and FirstMade are for calls of durable grains", raysys.ErrBadOption, n.opts.Key))
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

// param is one parameter of a task while it is given by reference: the value of that type which is to be at some place of an
// argument.
type param struct {
	of     *core.ValueType
	at     unsafe.Pointer
	future *core.Future
	has    bool // the value is there
}

// field is where the argument of a function has a parameter.
type field struct {
	of *core.ValueType
	at uintptr
}

// params are the parameters of the argument at arg, as references that refer to nothing yet.
func (d *definition) params(arg unsafe.Pointer) []*param {
	list := make([]*param, len(d.fields))
	for i, f := range d.fields {
		list[i] = &param{of: f.of, at: unsafe.Add(arg, f.at)}
	}
	return list
}

// set has p refer to c. It fails when c holds another type.
func (p *param) set(c *core.Future) (err error) {
	c, err = c.As(p.of)
	if err == nil {
		p.future = c
	}
	return err
}

// take puts the value into the argument; false when it is elsewhere.
func (p *param) take(j *core.Job) (here bool, err error) {
	if p.has {
		return true, nil
	}
	here, err = p.future.PeekInto(p.of, p.at)
	if err == nil && here {
		err = core.HandOver(j, "argument by reference", p.of, p.at)
		p.has = err == nil
	}
	return here, err
}

// pin keeps the value readable until Return, also where the program has released it: another node holds it.
func (p *param) pin() {
	if err := p.future.Pin(); err != nil {
		p.future = core.FailedOf(p.of, err)
		_ = p.future.Pin()
	}
}

// makeObject makes an object of what the argument of c has.
func (p *param) makeObject(c *core.Future, part int) {
	p.future = core.Hold(c, part, p.of, p.at)
}

// takeAll takes every parameter; false when one is elsewhere.
func takeAll(params []*param, j *core.Job) (here bool, err error) {
	here = true
	for _, p := range params {
		h, bad := p.take(j)
		here = here && h
		if err == nil {
			err = bad
		}
	}
	return here, err
}

// Difference says in what two recordings of a task, as Recording.Body has them, differ first; "" where they have the same
// function and argument.
func Difference(recorded, now []byte) string {
	was, err := recordedOf(recorded)
	is, bad := recordedOf(now)
	if err = cmp.Or(err, bad); err != nil {
		return fmt.Sprintf("a record that cannot be read: %v", err)
	}
	if was.Function != is.Function {
		return fmt.Sprintf("the function is %s and was %s", is.Function, was.Function)
	}
	at := 0
	for at < len(was.Arg) && at < len(is.Arg) && was.Arg[at] == is.Arg[at] {
		at++
	}
	if at == len(was.Arg) && at == len(is.Arg) {
		return ""
	}
	return fmt.Sprintf("byte %d of the encoded argument begins %s and was %s", at, excerpt(is.Arg, at), excerpt(was.Arg, at))
}

// excerpt shows a few bytes of an argument.
func excerpt(b []byte, at int) string {
	const few = 8
	rest := b[at:]
	switch {
	case len(rest) == 0:
		return "its end"
	case len(rest) > few:
		return fmt.Sprintf("%x...", rest[:few])
	}
	return fmt.Sprintf("%x", rest)
}

// PackJSON returns a task of a function of the table, with the argument as JSON: a list where the function takes
// several, empty where it takes none. The error matches raysys.ErrBadOption, and says where in the text something does
// not fit, and which type is there.
func PackJSON(e *core.Entry, text []byte, opts ...raysys.Option) (p core.Packed, err error) {
	defer func() {
		if bad := recover(); bad != nil { // an UnmarshalJSON of the program
			err = fmt.Errorf("%w: the argument of %s: panic: %v", raysys.ErrBadOption, e, bad)
		}
	}()
	s := newSpec(e.Impl.(*spec), opts)
	arg, takes := reflect.New(s.argType.Type), s.argType.Type.String()
	switch n := len(s.fields); {
	case s.argType.Type == reflect.TypeFor[none]():
		if len(text) > 0 {
			return p, fmt.Errorf("%w: %s takes no argument", raysys.ErrBadOption, e)
		}
	case n > 1:
		types, list := make([]string, n), []json.RawMessage(nil)
		for i, f := range s.fields {
			types[i] = f.of.Type.String()
		}
		takes = "[" + strings.Join(types, ", ") + "]"
		if err = jsonfit.Decode("", text, &list); err == nil && len(list) != n {
			err = fmt.Errorf("it has %d parts", len(list))
		}
		for i := 0; err == nil && i < n; i++ {
			err = jsonfit.Decode(fmt.Sprintf("[%d]", i), list[i], arg.Elem().Field(i).Addr().Interface())
		}
	default:
		err = jsonfit.Decode("", text, arg.Interface())
	}
	if err != nil {
		return p, fmt.Errorf("%w: the argument of %s, %s, as JSON: %w", raysys.ErrBadOption, e, takes, err)
	}
	return Pack(Task{s}, arg.UnsafePointer())
}

// recordedOf reads the body of a recording.
func recordedOf(body []byte) (t recordedTask, err error) {
	plan, err := recordedPlan()
	if err == nil {
		err = plan.Decode(body, reflect.ValueOf(&t).Elem(), nil)
	}
	return t, err
}

// IsRecorded reports whether a recording of a task, as Recording.Body has it, is of p. It may say no of one that is.
func IsRecorded(body []byte, p *core.Packed) bool {
	t, err := recordedOf(body)
	return err == nil && !t.ByRef && t.Function == p.Function && bytes.Equal(t.Arg, p.Arg)
}

// RecordedArgument is what a recording of a task of the function has as its argument: a pointer, or a list where
// there are several.
func RecordedArgument(e *core.Entry, body []byte) (any, error) {
	t, err := recordedOf(body)
	s := e.Impl.(*spec)
	switch {
	case err != nil:
		return nil, err
	case t.ByRef || s.arg.HasRefs():
		return nil, errors.New("it holds references")
	}
	arg := reflect.New(s.argType.Type)
	if err := s.arg.DecodeAt(t.Arg, arg.UnsafePointer(), nil); err != nil {
		return nil, err
	}
	if len(s.fields) == 1 {
		return arg.Interface(), nil
	}
	var list []any
	for i := range s.fields {
		list = append(list, arg.Elem().Field(i).Interface())
	}
	return &list, nil
}

// RecordedResult is a result of the function as a record has it: a pointer.
func RecordedResult(e *core.Entry, value []byte) (any, error) {
	s := e.Impl.(*spec)
	if s.res.HasRefs() {
		return nil, errors.New("it holds references")
	}
	v := reflect.New(s.value.Type)
	return v.Interface(), s.res.DecodeAt(value, v.UnsafePointer(), nil)
}
