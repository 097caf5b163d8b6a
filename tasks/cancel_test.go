package tasks_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

var errWhy = errors.New("the user left")

// tree defines a task that submits a child of its own down to a depth, and all of them wait.
func tree(table *raysys.Table) (grow tasks.Task[int, int], began chan int, ended chan error) {
	began, ended = make(chan int, 100), make(chan error, 100)
	grow = tasks.DefineIn(table, "grow", func(ctx context.Context, depth int) (int, error) {
		began <- depth
		if depth == 0 {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return 0, ctx.Err()
		}
		v, err := grow.Go(ctx, depth-1).Get(ctx)
		ended <- context.Cause(ctx)
		return v, err
	})
	return grow, began, ended
}

// Whoever cancels, and however: the task and everything it submitted end, each with the cause.
func TestCancelReachesNestedWork(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel func(r raysys.Ref[int], cancel context.CancelCauseFunc)
		cause  error
	}{
		{"ref", func(r raysys.Ref[int], _ context.CancelCauseFunc) { r.Cancel() }, raysys.ErrCancelled},
		{"derived context", func(_ raysys.Ref[int], cancel context.CancelCauseFunc) { cancel(errWhy) }, errWhy},
		{"derived context without a cause", func(_ raysys.Ref[int], cancel context.CancelCauseFunc) { cancel(nil) }, raysys.ErrCancelled},
		{"driver's context", func(_ raysys.Ref[int], cancel context.CancelCauseFunc) { cancel(errWhy) }, errWhy},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := raysys.NewTable()
			grow, began, ended := tree(table)
			n, ctx := nodetest.Node(t, table, 2)
			sub, cancel := context.WithCancelCause(ctx)
			if c.name == "driver's context" {
				outer, stop := context.WithCancelCause(context.Background())
				sub, cancel = n.Context(outer), stop
			}
			defer cancel(nil)
			r := grow.Go(sub, 3)
			for range 4 {
				nodetest.Arrive(t, began, "the tasks run")
			}
			c.cancel(r, cancel)
			_, err := nodetest.Get(t, ctx, r)
			if !errors.Is(err, raysys.ErrCancelled) || !errors.Is(err, context.Canceled) || !errors.Is(err, c.cause) {
				t.Errorf("got %v; want ErrCancelled with %v", err, c.cause)
			}
			if s := raysys.PhaseOf(r); s != raysys.PhaseCancelled {
				t.Errorf("the task is %v, want cancelled", s)
			}
			for range 4 {
				if cause := nodetest.Arrive(t, ended, "every task ends"); !errors.Is(cause, raysys.ErrCancelled) || !errors.Is(cause, c.cause) {
					t.Errorf("a task's context ended with cause %v; want %v", cause, c.cause)
				}
			}
			nodetest.Eventually(t, "all CPUs are free again", func() bool { return engineOf(n).FreeCPU() == 2 })
		})
	}
}

// Cancelled before it starts, a task never runs; Cancel says whether it came in time.
func TestCancelBeforeStart(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	ran := make(chan int, 10)
	work := tasks.DefineIn(table, "work", func(_ context.Context, x int) (int, error) { ran <- x; return x, nil })
	_, ctx := nodetest.Node(t, table, 1)
	first := hold.Go(ctx)
	nodetest.Arrive(t, began, "the CPU is taken")
	sub, cancel := context.WithCancel(ctx)
	byRef, byCtx, held := work.Go(ctx, 1), work.Go(sub, 2), work.On(ctx, hold.Go(ctx))
	mapped := work.Map(sub, []int{3, 4})
	last := work.Go(ctx, 5)
	if !byRef.Cancel() || !held.Cancel() || !mapped[1].Cancel() {
		t.Error("Cancel of pending work says that it came too late")
	}
	cancel()
	nodetest.Eventually(t, "State sees the end of the context", func() bool { return raysys.PhaseOf(byCtx) == raysys.PhaseCancelled })
	close(open)
	nodetest.Want(t, ctx, first, 0)
	nodetest.Want(t, ctx, last, 5)
	for name, r := range map[string]raysys.Ref[int]{"ref": byRef, "ctx": byCtx, "held": held, "map": mapped[0], "map, ref": mapped[1]} {
		if _, err := nodetest.Get(t, ctx, r); !errors.Is(err, raysys.ErrCancelled) {
			t.Errorf("%s: %v, want ErrCancelled", name, err)
		}
	}
	if x := <-ran; x != 5 || len(ran) != 0 {
		t.Errorf("cancelled task %d ran", x)
	}
	if last.Cancel() || byRef.Cancel() || (raysys.Ref[int]{}).Cancel() || raysys.Ready(1).Cancel() {
		t.Error("Cancel of settled work says that it came in time")
	}
	if _, err := nodetest.Get(t, ctx, work.Go(sub, 6)); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("Go on a cancelled context: %v, want ErrCancelled", err)
	}
	for _, r := range work.Map(sub, []int{6, 7}) {
		if _, err := nodetest.Get(t, ctx, r); !errors.Is(err, raysys.ErrCancelled) {
			t.Errorf("Map on a cancelled context: %v, want ErrCancelled", err)
		}
	}
}

// A child may be cancelled alone: its parent learns of it as of a failure, and is not cancelled itself.
func TestCancelOfAChild(t *testing.T) {
	table := raysys.NewTable()
	hold, _, _ := blockers(table)
	parent := tasks.Define0In(table, "parent", func(ctx context.Context) (int, error) {
		sub, cancel := context.WithCancel(ctx)
		r := hold.Go(sub)
		cancel()
		_, err := r.Get(ctx)
		if ctx.Err() != nil {
			t.Errorf("the parent's own context ended: %v", ctx.Err())
		}
		return 0, err
	})
	_, ctx := nodetest.Node(t, table, 2)
	r := parent.Go(ctx)
	_, err := nodetest.Get(t, ctx, r)
	var te *raysys.TaskError
	if !errors.As(err, &te) || te.Function != "parent" || !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("got %v; want the parent's TaskError around ErrCancelled", err)
	}
	if s := raysys.PhaseOf(r); s != raysys.PhaseFailed {
		t.Errorf("the parent is %v, want failed", s)
	}
}

// An error that only reports the end of the task's own context is that end; one of a context of its own is an error.
func TestTaskReturnsItsContextsError(t *testing.T) {
	table := raysys.NewTable()
	began := make(chan struct{}, 10)
	obeys := tasks.DefineIn(table, "obeys", func(ctx context.Context, own bool) (int, error) {
		if own {
			var cancel func()
			ctx, cancel = context.WithCancel(ctx)
			cancel()
		}
		began <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	_, ctx := nodetest.Node(t, table, 2)
	sub, cancel := context.WithCancelCause(ctx)
	r := obeys.Go(sub, false)
	nodetest.Arrive(t, began, "the task runs")
	cancel(errWhy)
	var te *raysys.TaskError
	if _, err := nodetest.Get(t, ctx, r); !errors.Is(err, errWhy) || errors.As(err, &te) {
		t.Errorf("its own context: %v; want the cause alone", err)
	}
	if _, err := nodetest.Get(t, ctx, obeys.Go(ctx, true)); !errors.Is(err, context.Canceled) || !errors.As(err, &te) || errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("a context of its own: %v; want a TaskError", err)
	}
}

// Detached work outlives the context it was submitted under and the task that submitted it.
func TestDetached(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	refs := make(chan raysys.Ref[int], 1)
	parent := tasks.Define0In(table, "parent", func(ctx context.Context) (int, error) {
		refs <- hold.With(raysys.Detached()).Go(ctx)
		<-ctx.Done()
		return 0, ctx.Err()
	})
	_, ctx := nodetest.Node(t, table, 4)
	sub, cancel := context.WithCancel(ctx)
	attached, detached := hold.Go(sub), hold.With(raysys.Detached()).Go(sub)
	p := parent.Go(ctx)
	child := <-refs
	for range 3 {
		nodetest.Arrive(t, began, "the tasks run")
	}
	cancel()
	p.Cancel()
	if _, err := nodetest.Get(t, ctx, attached); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("attached: %v", err)
	}
	if _, err := nodetest.Get(t, ctx, p); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("parent: %v", err)
	}
	for _, r := range []raysys.Ref[int]{detached, child} {
		if s := raysys.PhaseOf(r); s != raysys.PhasePending {
			t.Errorf("detached work is %v, want pending", s)
		}
	}
	if child.ID().IsZero() || child.ID() == p.ID() {
		t.Errorf("the detached child's id is %v", child.ID())
	}
	third := hold.With(raysys.Detached()).Go(ctx)
	third.Cancel()
	if _, err := nodetest.Get(t, ctx, third); !errors.Is(err, raysys.ErrCancelled) {
		t.Errorf("Cancel of detached work: %v", err)
	}
	close(open)
	nodetest.Want(t, ctx, detached, 0)
	nodetest.Want(t, ctx, child, 0)
}

// One registration per context given to Go, none per task; and deriving from a task's context starts no goroutine.
func TestCancellationCostsNothingPerTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := raysys.NewTable()
		more := make(chan int, 1)
		task := tasks.Define0In(table, "task", func(ctx context.Context) (int, error) {
			before := runtime.NumGoroutine()
			var stops []func()
			for range 100 {
				sub, cancel := context.WithCancel(ctx)
				defer cancel()
				stop := context.AfterFunc(sub, func() {})
				stop2 := context.AfterFunc(ctx, func() {})
				stops = append(stops, func() { stop(); stop2() })
			}
			more <- runtime.NumGoroutine() - before
			for _, stop := range stops {
				stop()
			}
			return 0, nil
		})
		one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
		_, ctx := nodetest.Node(t, table, 1)
		if _, err := task.Go(ctx).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if n := <-more; n > 10 {
			t.Errorf("100 contexts derived in a task started %d goroutines", n)
		}
		sub, cancel := context.WithCancel(ctx)
		defer cancel()
		one.Go(sub, 0)
		before := runtime.NumGoroutine()
		plain := testing.AllocsPerRun(1000, func() { one.Go(ctx, 1) })
		derived := testing.AllocsPerRun(1000, func() { one.Go(sub, 1) })
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 2 {
			t.Errorf("2000 tasks left %d goroutines", n)
		}
		if derived > plain {
			t.Errorf("a task under a derived context costs %v allocations, another %v", derived, plain)
		}
	})
}

// lateUntil defines a task that returns 1 once the gate is open.
func lateUntil(table *raysys.Table, gate chan struct{}) tasks.Task0[int] {
	return tasks.Define0In(table, "late", func(ctx context.Context) (int, error) {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return 1, ctx.Err()
	})
}

// heavy is an argument that waits for a value.
type heavy struct {
	In    raysys.Ref[int]
	Bytes []byte
}

// TestCancelledLetsGo: a cancelled task keeps nothing while what it waited for has not settled, however it waited.
func TestCancelledLetsGo(t *testing.T) {
	const each = 100
	table := raysys.NewTable()
	gate := make(chan struct{})
	late := lateUntil(table, gate)
	inside := tasks.DefineIn(table, "inside", func(_ context.Context, h heavy) (int, error) { return len(h.Bytes), nil })
	beside := tasks.Define2In(table, "beside", func(_ context.Context, b []byte, n int) (int, error) { return len(b) + n, nil })
	_, ctx := nodetest.Node(t, table, 2)
	in := late.Go(ctx)
	var gone atomic.Int64
	bytes := func() []byte {
		b := make([]byte, 1<<10)
		runtime.AddCleanup(&b[0], func(int) { gone.Add(1) }, 0)
		return b
	}
	sub, cancel := context.WithCancelCause(ctx)
	var all []raysys.Ref[int]
	for range each {
		all = append(all, inside.Go(sub, heavy{in, bytes()}), beside.On(sub, raysys.Ready(bytes()), in))
	}
	cancel(errWhy)
	for range each { // cancelled already
		all = append(all, inside.Go(sub, heavy{in, bytes()}), beside.On(sub, raysys.Ready(bytes()), in))
	}
	for _, r := range all {
		if _, err := r.Get(ctx); !errors.Is(err, errWhy) {
			t.Fatalf("a cancelled task ends with %v", err)
		}
	}
	nodetest.EventuallyGC(t, "the arguments of cancelled tasks go", func() bool { return gone.Load() == 4*each })
	runtime.KeepAlive(all)
	close(gate)
	nodetest.Want(t, ctx, in, 1)
}

// TestPendingInputForgetsCancelled: an input that is pending for long remembers no dependants that were cancelled, tasks or calls.
func TestPendingInputForgetsCancelled(t *testing.T) {
	const n = 20_000
	table := raysys.NewTable()
	gate := make(chan struct{})
	late := lateUntil(table, gate)
	one := tasks.DefineIn(table, "one", func(_ context.Context, x int) (int, error) { return x, nil })
	kind := grains.DefineIn[struct{}](table, "kind")
	call := grains.Method(kind, "call", func(_ *struct{}, _ context.Context, x int) (int, error) { return x, nil })
	_, ctx := nodetest.Node(t, table, 2)
	in := late.Go(ctx)
	kept := one.On(ctx, in) // waits on
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, submit := range map[string]func(ctx context.Context) raysys.Ref[int]{
		"tasks": func(ctx context.Context) raysys.Ref[int] { return one.On(ctx, in) },
		"calls": func(ctx context.Context) raysys.Ref[int] { return call.On(ctx, kind.Get("x"), in) },
	} {
		before := heap()
		for range n {
			submit(ctx).Cancel()
		}
		nodetest.Eventually(t, name+" that were cancelled are forgotten", func() bool { return heap()-before < 20*n })
	}
	close(gate)
	nodetest.Want(t, ctx, kept, 1)
	nodetest.Want(t, ctx, call.On(ctx, kind.Get("x"), in), 1)
}
