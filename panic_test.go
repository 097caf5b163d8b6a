package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// TestStack: the stack is found wherever the panic is inside an error, and %+v alone prints it.
func TestStack(t *testing.T) {
	inner := &raysys.TaskError{Function: "inner", Err: &raysys.PanicError{Value: 7}, Stack: []byte("goroutine 1 [running]:\nmain.boom()\n")}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"itself":           {inner, true},
		"nested":           {&raysys.TaskError{Function: "outer", Err: fmt.Errorf("waiting: %w", inner)}, true},
		"behind a failure": {errors.Join(&raysys.TaskError{Function: "other", Err: errBoom}, inner), true},
		"a failure":        {&raysys.TaskError{Function: "other", Err: errBoom}, false},
		"nil":              {nil, false},
		"nil pointer":      {(*raysys.TaskError)(nil), false},
	} {
		if got := raysys.Stack(c.err); (got != nil) != c.want {
			t.Errorf("%s: the stack is %q", name, got)
		}
	}
	outer := &raysys.TaskError{Function: "outer", Err: inner}
	for format, want := range map[string]string{
		"%v": "outer: inner: panic: 7", "%s": "outer: inner: panic: 7", "%q": `"outer: inner: panic: 7"`, "%30s|": "        outer: inner: panic: 7|",
		"%+v": "outer: inner: panic: 7\n\ngoroutine 1 [running]:\nmain.boom()\n",
	} {
		if got := fmt.Sprintf(format, outer); got != want {
			t.Errorf("%s printed %q, want %q", format, got, want)
		}
	}
	if got := fmt.Sprintf("%#v", outer); !strings.Contains(got, `Function:"outer"`) {
		t.Errorf("%%#v printed %s", got)
	}
}

// TestStackOfNestedTasks: the task that failed because one it waited for panicked has that one's stack.
func TestStackOfNestedTasks(t *testing.T) {
	table := raysys.NewTable()
	deep := tasks.DefineIn(table, "deep", func(context.Context, int) (int, error) { panic("deep down") })
	outer := tasks.DefineIn(table, "outer", func(ctx context.Context, n int) (int, error) { return deep.Go(ctx, n).Get(ctx) })
	_, ctx := node(t, table)
	_, err := outer.Go(ctx, 1).Get(ctx)
	var te *raysys.TaskError
	if !errors.As(err, &te) || te.Function != "outer" || !strings.Contains(string(te.Stack), "panic_test.go") {
		t.Errorf("errors.As found %#v: a person who looks at it sees no stack", te)
	}
}
