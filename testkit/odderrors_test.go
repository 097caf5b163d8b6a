package testkit_test

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// odd is an error that misbehaves by its kind.
type odd struct{ kind string }

func (o *odd) Error() string { return o.kind } // panics for nil

func (o *odd) Is(error) bool {
	if o.kind == "lies" {
		panic("is")
	}
	return false
}

func (o *odd) Unwrap() []error {
	switch o.kind {
	case "wraps itself":
		return []error{o}
	case "is wide":
		return []error{&odd{kind: "is wide"}, &odd{kind: "is wide"}}
	}
	return nil
}

func oddly(kind string) error {
	switch kind {
	case "":
		return nil
	case "is a typed nil":
		return (*odd)(nil)
	case "is a nil of fs":
		return (*fs.PathError)(nil)
	}
	return &odd{kind: kind}
}

type oddGrain struct{ kind string }

func (g *oddGrain) Do(_ context.Context, kind string) (int, error)    { return 1, oddly(kind) }
func (g *oddGrain) Panic(_ context.Context, kind string) (int, error) { panic(oddly(kind)) }
func (g *oddGrain) Set(_ context.Context, kind string) error          { g.kind = kind; return nil }
func (g *oddGrain) OnDeactivate(context.Context) error                { return oddly(g.kind) }

var (
	oddTask  = tasks.Define("odd error", func(_ context.Context, kind string) (int, error) { return 1, oddly(kind) })
	oddPanic = tasks.Define("odd panic", func(_ context.Context, kind string) (int, error) { panic(oddly(kind)) })
	oddKind  = grains.Define[oddGrain]("odd")
	oddCall  = grains.Method(oddKind, "do", (*oddGrain).Do)
	oddFall  = grains.Method(oddKind, "fall", (*oddGrain).Panic)
	oddSet   = grains.Action(oddKind, "set", (*oddGrain).Set)
)

// TestOddErrors: whatever error a program returns, panics with, or ends a context with, its future settles with a TaskError
// that says what it was, and the next work runs.
func TestOddErrors(t *testing.T) {
	for name, opts := range map[string][]testkit.Option{"strict": {testkit.CPU(1)}, "nodes": {testkit.Nodes(2)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, opts...)
			for _, kind := range []string{"is a typed nil", "is a nil of fs", "lies", "wraps itself", "is wide"} {
				ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
				for what, r := range map[string]raysys.Ref[int]{
					"task": oddTask.Go(ctx, kind), "panic of a task": oddPanic.Go(ctx, kind),
					"call": oddCall.Call(ctx, oddKind.Get("a"), kind), "panic of a call": oddFall.Call(ctx, oddKind.Get("b"), kind),
					"task of its own node": oddTask.With(raysys.CPU(0)).Go(ctx, kind),
				} {
					_, err := r.Get(ctx)
					var te *raysys.TaskError
					if !errors.As(err, &te) || ctx.Err() != nil {
						t.Fatalf("a %s whose error %s: %v", what, kind, err)
					}
					if text := err.Error(); len(text) > 400 || !strings.Contains(text, "do not look into this error") || strings.Contains(what, "panic") != errors.Is(err, raysys.ErrPanic) {
						t.Errorf("a %s whose error %s: %q", what, kind, text)
					}
				}
				if _, err := oddSet.Call(ctx, oddKind.Get("c"), kind).Get(ctx); err != nil { // its end is as odd
					t.Error(err)
				}
				ended, end := context.WithCancelCause(ctx)
				end(oddly(kind))
				if _, err := oddTask.Go(ended, "").Get(ended); !errors.Is(err, raysys.ErrCancelled) {
					t.Errorf("a context whose cause %s: %v", kind, err)
				}
				if v, err := oddTask.Go(ctx, "").Get(ctx); v != 1 || err != nil {
					t.Errorf("the task after it: %d, %v", v, err)
				}
				if v, err := oddCall.Call(ctx, oddKind.Get("a"), "").Get(ctx); v != 1 || err != nil {
					t.Errorf("the call after it: %d, %v", v, err)
				}
				cancel()
			}
		})
	}
}

// TestFarDeadlines: what is far is not over.
func TestFarDeadlines(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	ctx := k.Context()
	for _, d := range []time.Duration{1<<63 - 1, 1 << 62, 200 * 365 * 24 * time.Hour} {
		if v, err := oddTask.With(raysys.Deadline(d)).Go(ctx, "").Get(ctx); v != 1 || err != nil {
			t.Errorf("a task with a deadline of %v: %d, %v", d, v, err)
		}
		if v, err := oddCall.With(raysys.Deadline(d)).Call(ctx, oddKind.Get("d"), "").Get(ctx); v != 1 || err != nil {
			t.Errorf("a call with a deadline of %v: %d, %v", d, v, err)
		}
	}
	for _, at := range []time.Time{time.Unix(1<<40, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<62, 0)} {
		far, cancel := context.WithDeadline(ctx, at)
		if v, err := oddTask.Go(far, "").Get(far); v != 1 || err != nil {
			t.Errorf("a context that ends in the year %d: %d, %v", at.Year(), v, err)
		}
		if v, err := oddCall.Call(far, oddKind.Get("d"), "").Get(far); v != 1 || err != nil {
			t.Errorf("a call in a context that ends in the year %d: %d, %v", at.Year(), v, err)
		}
		cancel()
	}
}

type unregistered struct{ N int }

var anyTask = tasks.Define("any", func(_ context.Context, v any) (any, error) {
	if v == "result" {
		return unregistered{1}, nil
	}
	return v, nil
})

// TestStrictByStaticType: in strict mode a value travels as the type that the function declares, as it does between nodes.
func TestStrictByStaticType(t *testing.T) {
	for name, opts := range map[string][]testkit.Option{"strict": nil, "nodes": {testkit.Nodes(2)}} {
		k := testkit.New(t, opts...)
		ctx := k.Context()
		for what, r := range map[string]raysys.Ref[any]{
			"argument": anyTask.Go(ctx, unregistered{1}), "result": anyTask.Go(ctx, "result"),
		} {
			if v, err := r.Get(ctx); !errors.Is(err, raysys.ErrEncode) {
				t.Errorf("%s: an unregistered type as %s: %v, %v", name, what, v, err)
			}
		}
		if name == "strict" {
			if v, err := raysys.Put(ctx, any(unregistered{1})).Get(ctx); !errors.Is(err, raysys.ErrEncode) {
				t.Errorf("an unregistered type in Put: %v, %v", v, err)
			}
		}
		for _, v := range []any{nil, 7, "x", []any{nil, 1.5}} {
			if got, err := anyTask.Go(ctx, v).Get(ctx); err != nil || !reflect.DeepEqual(got, v) {
				t.Errorf("%s: %v came back as %v, %v", name, v, got, err)
			}
		}
	}
}
