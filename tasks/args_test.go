package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// Every form of definition and of submission reaches its function with its arguments in order.
func TestFormsOfTasks(t *testing.T) {
	table := raysys.NewTable()
	t0 := tasks.Define0In(table, "t0", func(context.Context) (string, error) { return "none", nil })
	t1 := tasks.DefineIn(table, "t1", func(_ context.Context, a int) (string, error) { return fmt.Sprint(a), nil })
	t2 := tasks.Define2In(table, "t2", func(_ context.Context, a int, b string) (string, error) {
		return fmt.Sprint(a, b), nil
	})
	t3 := tasks.Define3In(table, "t3", func(_ context.Context, a int, b string, c []int) (string, error) {
		return fmt.Sprint(a, b, c), nil
	})
	_, ctx := nodetest.Node(t, table, 2)
	one, two, three := raysys.Put(ctx, 1), raysys.Ready("b"), raysys.Put(ctx, []int{7})
	cpu0 := raysys.CPU(0)
	for i, c := range []struct {
		ref  raysys.Ref[string]
		want string
	}{
		{t0.Go(ctx), "none"},
		{t0.With(cpu0).Go(ctx), "none"},
		{t1.Go(ctx, 1), "1"},
		{t1.On(ctx, one), "1"},
		{t1.With(cpu0).On(ctx, one), "1"},
		{t1.Map(ctx, []int{3, 4})[1], "4"},
		{t1.With(cpu0).Map(ctx, []int{3, 4})[1], "4"},
		{t2.Go(ctx, 1, "b"), "1b"},
		{t2.On(ctx, one, two), "1b"},
		{t2.With(cpu0).On(ctx, one, two), "1b"},
		{t3.Go(ctx, 1, "b", []int{7}), "1b[7]"},
		{t3.On(ctx, one, two, three), "1b[7]"},
		{t3.With(cpu0).Go(ctx, 1, "b", nil), "1b[]"},
	} {
		if got, err := nodetest.Get(t, ctx, c.ref); got != c.want || err != nil {
			t.Errorf("case %d: got %q, %v; want %q", i, got, err, c.want)
		}
	}
	if refs := t1.Map(ctx, nil); len(refs) != 0 {
		t.Errorf("Map over nothing gave %d refs", len(refs))
	}
}

type place struct {
	Ref  raysys.Ref[int]
	Many []raysys.Ref[int]
	Deep struct {
		ByName map[string]raysys.Ref[int]
		Ptr    *raysys.Ref[int]
		Fixed  [2]raysys.Ref[int]
	}
	Later raysys.Handle[int]
}

// A Ref anywhere in an argument is there before the task runs; a Handle is passed on as it is.
func TestRefsInsideArguments(t *testing.T) {
	table := raysys.NewTable()
	open := make(chan struct{})
	slow := tasks.DefineIn(table, "slow", func(_ context.Context, x int) (int, error) { <-open; return x, nil })
	states := tasks.DefineIn(table, "states", func(ctx context.Context, p place) ([]string, error) {
		var all []string
		for _, r := range append([]raysys.Ref[int]{
			p.Ref, p.Deep.ByName["a"], *p.Deep.Ptr, p.Deep.Fixed[1], p.Later.Ref(),
		}, p.Many...) {
			all = append(all, raysys.PhaseOf(r).String())
		}
		return all, nil
	})
	_, ctx := nodetest.Node(t, table, 8)
	hang := slow.With(raysys.CPU(0))
	arg := func(r func() raysys.Ref[int]) (p place) {
		p.Ref, p.Many = r(), []raysys.Ref[int]{r(), r()}
		p.Deep.ByName = map[string]raysys.Ref[int]{"a": r()}
		ptr := r()
		p.Deep.Ptr, p.Deep.Fixed = &ptr, [2]raysys.Ref[int]{r(), r()}
		return p
	}
	p := arg(func() raysys.Ref[int] { return hang.Go(ctx, 1) })
	p.Later = raysys.Ref[int]{}.Handle()
	r := states.Go(ctx, p)
	if s := raysys.PhaseOf(r); s != raysys.PhasePending {
		t.Fatalf("the task is %v before its arguments are there", s)
	}
	close(open)
	got, err := nodetest.Get(t, ctx, r)
	want := []string{"ready", "ready", "ready", "ready", "pending", "ready", "ready"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("states in the task: %v\n%s", err, diff)
	}
}

// A Handle of work that cannot end does not hold the task up, and the task can wait for it itself.
func TestHandleIsNotAwaited(t *testing.T) {
	table := raysys.NewTable()
	open := make(chan struct{})
	slow := tasks.DefineIn(table, "slow", func(_ context.Context, x int) (int, error) { <-open; return x, nil })
	began := make(chan raysys.Phase, 1)
	use := tasks.DefineIn(table, "use", func(ctx context.Context, h raysys.Handle[int]) (int, error) {
		began <- raysys.PhaseOf(h.Ref())
		return h.Ref().Get(ctx)
	})
	_, ctx := nodetest.Node(t, table, 2)
	r := use.Go(ctx, slow.Go(ctx, 5).Handle())
	if s := nodetest.Arrive(t, began, "the task with a Handle runs"); s != raysys.PhasePending {
		t.Errorf("the handle's work is %v, want pending", s)
	}
	close(open)
	nodetest.Want(t, ctx, r, 5)
}

var errBoom = errors.New("boom")

// A failed dependency fails the task with that very error, and the task does not run.
func TestFailedDependency(t *testing.T) {
	table := raysys.NewTable()
	fail := tasks.DefineIn(table, "fail", func(context.Context, int) (int, error) { return 0, errBoom })
	ran := make(chan struct{}, 10)
	sum := tasks.Define2In(table, "sum", func(_ context.Context, a, b int) (int, error) { ran <- struct{}{}; return a + b, nil })
	all := tasks.DefineIn(table, "all", func(_ context.Context, rs []raysys.Ref[int]) (int, error) { ran <- struct{}{}; return 1, nil })
	_, ctx := nodetest.Node(t, table, 2)
	bad, good := fail.Go(ctx, 0), raysys.Put(ctx, 1)
	gone := raysys.Put(ctx, 1)
	gone.Release()
	for name, r := range map[string]raysys.Ref[int]{
		"On":      sum.On(ctx, good, bad),
		"in args": all.Go(ctx, []raysys.Ref[int]{good, bad}),
		"chain":   sum.On(ctx, sum.On(ctx, bad, good), good),
	} {
		_, err := nodetest.Get(t, ctx, r)
		var te *raysys.TaskError
		if !errors.Is(err, errBoom) || !errors.As(err, &te) || te.Function != "fail" || te.Task != bad.ID() {
			t.Errorf("%s: %v; want the error of the task that failed", name, err)
		}
		if s := raysys.PhaseOf(r); s != raysys.PhaseFailed {
			t.Errorf("%s: state %v, want failed", name, s)
		}
	}
	for name, r := range map[string]raysys.Ref[int]{"On": sum.On(ctx, good, gone), "in args": all.Go(ctx, []raysys.Ref[int]{gone})} {
		if _, err := nodetest.Get(t, ctx, r); !errors.Is(err, raysys.ErrReleased) {
			t.Errorf("a released ref, %s: %v; want ErrReleased", name, err)
		}
	}
	if _, err := nodetest.Get(t, ctx, sum.On(ctx, good, raysys.Ref[int]{})); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Errorf("the zero ref: %v; want ErrInvalidRef", err)
	}
	if n := len(ran); n != 0 {
		t.Errorf("%d tasks ran although a dependency had failed", n)
	}
}
