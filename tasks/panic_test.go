package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// lazily is a map that nobody made, as programs forget to.
var lazily map[string]int

// exits defines a task that ends its goroutine when told to.
func exits(table *raysys.Table) tasks.Task[bool, int] {
	return tasks.DefineIn(table, "exits", func(_ context.Context, yes bool) (int, error) {
		if yes {
			runtime.Goexit()
		}
		return 1, nil
	})
}

// A panic fails its task alone, as a TaskError that says where.
func TestPanicIsATaskError(t *testing.T) {
	table := raysys.NewTable()
	explode := tasks.DefineIn(table, "explode", func(_ context.Context, v string) (int, error) {
		switch v {
		case "error":
			panic(fmt.Errorf("wrapped: %w", errBoom))
		case "nil map":
			lazily[v] = 1
		case "nil":
			panic(nil)
		}
		panic(v)
	})
	parent := tasks.DefineIn(table, "parent", func(ctx context.Context, v string) (int, error) {
		return explode.Go(ctx, v).Get(ctx)
	})
	n, ctx := nodetest.Node(t, table, 1)
	for _, v := range []string{"text", "error", "nil map", "nil"} {
		r := explode.Go(ctx, v)
		for how, wait := range map[string]func() (int, error){
			"on a worker": func() (int, error) { return nodetest.Get(t, ctx, r) },
			"in place":    func() (int, error) { return explode.Go(ctx, v).Get(ctx) },
		} {
			_, err := wait()
			var te *raysys.TaskError
			var pe *raysys.PanicError
			if !errors.As(err, &te) || !errors.As(err, &pe) || !errors.Is(err, raysys.ErrPanic) {
				t.Fatalf("%s, %s: %v; want a TaskError that matches ErrPanic", v, how, err)
			}
			if te.Function != "explode" || te.Node != n.Name() || te.Attempt != 1 || te.Task.IsZero() {
				t.Errorf("%s, %s: %+v", v, how, te)
			}
			if !strings.Contains(string(te.Stack), "panic_test.go:") {
				t.Errorf("%s, %s: the stack does not show the place:\n%s", v, how, te.Stack)
			}
			if (v == "error") != errors.Is(err, errBoom) {
				t.Errorf("%s, %s: errors.Is(err, errBoom) is wrong: %v", v, how, err)
			}
		}
		_, err := nodetest.Get(t, ctx, parent.Go(ctx, v))
		var te *raysys.TaskError
		if !errors.Is(err, raysys.ErrPanic) || !errors.As(err, &te) || te.Function != "parent" {
			t.Errorf("through a parent: %v", err)
		}
	}
}

// An application's error arrives with its identity and where it ran.
func TestErrorIsATaskError(t *testing.T) {
	table := raysys.NewTable()
	fail := tasks.DefineIn(table, "fail", func(context.Context, int) (int, error) { return 7, errBoom })
	n, ctx := nodetest.Node(t, table, 1)
	r := fail.Go(ctx, 1)
	v, err := nodetest.Get(t, ctx, r)
	var te *raysys.TaskError
	if v != 0 || !errors.Is(err, errBoom) || !errors.As(err, &te) {
		t.Fatalf("got %d, %v", v, err)
	}
	if te.Task != r.ID() || te.Function != "fail" || te.Node != n.Name() || te.Attempt != 1 || te.Stack != nil {
		t.Errorf("got %+v", te)
	}
	if errors.Is(err, raysys.ErrPanic) {
		t.Error("an error is no panic")
	}
}

// A task that ends its goroutine fails, its CPU is free again, and others run.
func TestGoexit(t *testing.T) {
	table := raysys.NewTable()
	exit := exits(table)
	parent := tasks.DefineIn(table, "parent", func(ctx context.Context, yes bool) (int, error) {
		return exit.Go(ctx, yes).Get(ctx)
	})
	n, ctx := nodetest.Node(t, table, 1)
	for name, r := range map[string]raysys.Ref[int]{
		"plain": exit.Go(ctx, true), "shaped": exit.With(raysys.CPU(0.5)).Go(ctx, true), "nested": parent.Go(ctx, true),
	} {
		_, err := nodetest.Get(t, ctx, r)
		var te *raysys.TaskError
		if !errors.As(err, &te) || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("%s: %v; want a TaskError that names Goexit", name, err)
		}
	}
	// Run in place, the task takes the goroutine of its driver along, but nothing else.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit.Go(ctx, true).Get(ctx)
	}()
	nodetest.Arrive(t, ended, "the driver's goroutine has ended")
	nodetest.Eventually(t, "the CPU is free again", func() bool { return engineOf(n).FreeCPU() == 1 })
	nodetest.Want(t, ctx, exit.Go(ctx, false), 1)
}
