package taskengine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// functions are those that the tests of several nodes share.
type functions struct {
	table  *raysys.Table
	square tasks.Task[int, int]
	where  tasks.Task0[string]
	fail   tasks.Task[string, int]
	blob   tasks.Task[[]byte, []byte]
}

func newFunctions() *functions {
	f := &functions{table: raysys.NewTable()}
	f.square = tasks.DefineIn(f.table, "square", func(_ context.Context, x int) (int, error) { return x * x, nil })
	f.where = tasks.Define0In(f.table, "where", func(ctx context.Context) (string, error) {
		t, _, err := core.TurnOf(ctx)
		return string(t.Job().Node), err
	})
	f.fail = tasks.DefineIn(f.table, "fail", func(_ context.Context, s string) (int, error) { return 0, errors.New(s) })
	f.blob = tasks.DefineIn(f.table, "blob", func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
	return f
}

// A driver without a CPU runs its tasks on a worker, one by one and in bulk.
func TestDriverAndWorker(t *testing.T) {
	f := newFunctions()
	d, w := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 2)
	ctx := d.ctx()
	early := f.square.Go(ctx, 3)
	join(t, d, w)
	nodetest.Want(t, ctx, early, 9)
	if v, err := f.square.Go(ctx, 4).Get(ctx); v != 16 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	nodetest.Want(t, ctx, f.where.Go(ctx), "worker")
	var refs []raysys.Ref[int]
	for i := range 1000 {
		refs = append(refs, f.square.Go(ctx, i))
	}
	xs := make([]int, 1000)
	for i := range xs {
		xs[i] = i
	}
	refs = append(refs, f.square.Map(ctx, xs)...)
	for i, r := range refs {
		nodetest.Want(t, ctx, r, (i%1000)*(i%1000))
	}
}

// A task has one id, one random source and one attempt count wherever it runs, and an error says where that was.
func TestSameTaskElsewhere(t *testing.T) {
	type facts struct {
		ID    string
		Rand  uint64
		Child string
	}
	table := raysys.NewTable()
	leaf := tasks.Define0In(table, "leaf", func(context.Context) (int, error) { return 0, nil })
	tell := tasks.Define0In(table, "tell", func(ctx context.Context) (facts, error) {
		t, _, err := core.TurnOf(ctx)
		return facts{t.ID().String(), raysys.Rand(ctx).Uint64(), leaf.Go(ctx).ID().String()}, err
	})
	alone := newHost(t, "driver", table, 2)
	var local []facts
	ctx := alone.ctx()
	sub, cancel := context.WithCancel(ctx)
	defer cancel()
	all := func(ctx, sub context.Context) []raysys.Ref[facts] {
		return []raysys.Ref[facts]{
			tell.Go(ctx), tell.Go(raysys.Branch(ctx, 3)), tell.Go(sub), tell.With(raysys.Detached()).Go(ctx),
			tell.With(raysys.Deadline(nodetest.Patience)).Go(ctx),
		}
	}
	for _, r := range all(ctx, sub) {
		v, err := nodetest.Get(t, ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		local = append(local, v)
	}
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 2)
	join(t, d, w)
	ctx = d.ctx()
	sub, cancel = context.WithCancel(ctx)
	defer cancel()
	for i, r := range all(ctx, sub) {
		if v, err := nodetest.Get(t, ctx, r); v != local[i] || err != nil {
			t.Errorf("task %d: got %+v, %v; want %+v", i, v, err, local[i])
		}
	}
}

// What a task returns as an error arrives as the same error, with where and at which attempt it was returned.
func TestErrorsFromElsewhere(t *testing.T) {
	table := raysys.NewTable()
	n := 0
	flaky := tasks.DefineIn(table, "flaky", func(_ context.Context, times int) (int, error) {
		if n++; n <= times {
			return 0, fmt.Errorf("attempt: %w", errWire)
		}
		return n, nil
	})
	panics := tasks.Define0In(table, "panics", func(context.Context) (int, error) { panic("oh") })
	d, w := newHost(t, "driver", table, 0), newHost(t, "worker", table, 1)
	join(t, d, w)
	ctx := d.ctx()
	_, err := nodetest.Get(t, ctx, flaky.Go(ctx, 1))
	var te *raysys.TaskError
	if !errors.As(err, &te) || !errors.Is(err, errWire) || te.Node != "worker" || te.Attempt != 1 || te.Function != "flaky" {
		t.Errorf("got %+v", err)
	}
	n = 0
	retried := flaky.With(raysys.RetryIf(func(err error) bool { return errors.Is(err, errWire) }), raysys.Backoff(0, 0))
	if v, err := nodetest.Get(t, ctx, retried.Go(ctx, 2)); v != 3 || err != nil {
		t.Errorf("with RetryIf: got %d, %v; want 3", v, err)
	}
	n = 0
	r := retried.With(raysys.RetryIf(func(err error) bool { return errors.Is(err, errWire) }), raysys.Backoff(0, 0), raysys.Retries(1)).Go(ctx, 5)
	if _, err := nodetest.Get(t, ctx, r); !errors.As(err, &te) || te.Attempt != 2 || te.Task != r.ID() {
		t.Errorf("after the last attempt: %+v", err)
	}
	if _, err := nodetest.Get(t, ctx, panics.Go(ctx)); !errors.Is(err, raysys.ErrPanic) || !errors.As(err, &te) || len(te.Stack) == 0 {
		t.Errorf("a panic: %v", err)
	}
}

var (
	errWire = errors.New("over the wire")
	_       = raysys.RegisterError("tasks-test.wire", errWire)
)

// A node with a free CPU keeps its tasks; a busy one leaves no CPU of an idle peer without work.
func TestBottomUp(t *testing.T) {
	table := raysys.NewTable()
	began, open := make(chan string, 100), make(chan struct{})
	hold := tasks.Define0In(table, "hold", func(ctx context.Context) (string, error) {
		t, _, _ := core.TurnOf(ctx)
		began <- string(t.Job().Node)
		<-open
		return string(t.Job().Node), nil
	})
	a, b := newHost(t, "a", table, 2), newHost(t, "b", table, 3)
	join(t, a, b)
	ctx := a.ctx()
	count := map[string]int{}
	var refs []raysys.Ref[string]
	for range 2 {
		refs = append(refs, hold.Go(ctx))
		count[nodetest.Arrive(t, began, "a CPU of a is free")]++
	}
	if count["a"] != 2 {
		t.Errorf("%v: the first two belong to a", count)
	}
	for range 3 {
		refs = append(refs, hold.Go(ctx))
		count[nodetest.Arrive(t, began, "a CPU of b is free")]++
	}
	if count["b"] != 3 {
		t.Errorf("%v: the next three belong to b", count)
	}
	for range 5 {
		refs = append(refs, hold.Go(ctx))
	}
	nodetest.Eventually(t, "what nobody can start waits at home", func() bool { return a.engine.Queued() == 5 })
	if l := b.engine.Load(); l.Inbound != 3 || l.Busy != 0 || l.Free != 0 || a.engine.Load().Busy != 2 {
		t.Errorf("b has %+v, a has %+v", l, a.engine.Load())
	}
	close(open)
	for _, r := range refs {
		if _, err := nodetest.Get(t, ctx, r); err != nil {
			t.Error(err)
		}
	}
}

// Values of any size up to the limit travel, and what cannot travel runs at home or fails with the reason.
func TestSizes(t *testing.T) {
	f := newFunctions()
	awkward := tasks.DefineIn(f.table, "awkward", func(_ context.Context, a stubborn) (stubborn, error) { return a, nil })
	grow := tasks.DefineIn(f.table, "grow", func(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })
	d, w, h := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 2), newHost(t, "home", f.table, 1)
	join(t, d, w)
	ctx := d.ctx()
	for _, n := range []int{0, 1, wire.InlineLimit - 10, wire.InlineLimit, wire.InlineLimit + 1, wire.ValueLimit - 100, wire.ValueLimit + 1, 5 * wire.ValueLimit} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i)
		}
		if v, err := nodetest.Get(t, ctx, f.blob.Go(ctx, b)); err != nil || !bytes.Equal(v, b) {
			t.Errorf("%d bytes: got %d, %v", n, len(v), err)
		}
	}
	var refs []raysys.Ref[[]byte]
	for range 50 {
		refs = append(refs, f.blob.Go(ctx, make([]byte, 40<<10)))
	}
	for _, r := range refs {
		if v, err := nodetest.Get(t, ctx, r); len(v) != 40<<10 || err != nil {
			t.Errorf("one of many: got %d, %v", len(v), err)
		}
	}
	if _, err := nodetest.Get(t, ctx, awkward.Go(ctx, true)); !errors.Is(err, raysys.ErrEncode) {
		t.Errorf("an argument that refuses: %v", err)
	}
	if v, err := nodetest.Get(t, ctx, grow.Go(ctx, wire.ValueLimit+1)); len(v) != wire.ValueLimit+1 || err != nil {
		t.Errorf("a large result: %d bytes, %v", len(v), err)
	}
	if d.engine.Load().Inbound+w.engine.Load().Inbound != 0 {
		t.Error("inbound tasks are left")
	}
	// With a CPU of its own the node runs them itself, however busy it is.
	join(t, h, w)
	ctx = h.ctx()
	var many []raysys.Ref[[]byte]
	var odd []raysys.Ref[stubborn]
	for range 20 {
		many = append(many, f.blob.Go(ctx, make([]byte, wire.ValueLimit+1)))
		odd = append(odd, awkward.Go(ctx, true))
	}
	for i := range many {
		if v, err := nodetest.Get(t, ctx, many[i]); len(v) != wire.ValueLimit+1 || err != nil {
			t.Errorf("at home: %d bytes, %v", len(v), err)
		}
		if _, err := nodetest.Get(t, ctx, odd[i]); err != nil {
			t.Errorf("at home: %v", err)
		}
	}
}

// stubborn refuses to be encoded when it is true.
type stubborn bool

func (a stubborn) MarshalBinary() ([]byte, error) {
	if a {
		return nil, errors.New("I stay")
	}
	return []byte{1}, nil
}

func (a *stubborn) UnmarshalBinary([]byte) error { return nil }

// A peer that lacks a function gets none of its tasks; when no node has it, they fail, but not before a node that is
// being started could have brought it.
func TestUnknownFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFunctions()
		d, w, v := newHost(t, "driver", f.table, 0), newHost(t, "worker", f.table, 1), newHost(t, "vorker", f.table, 1)
		l := join(t, d, w)
		l.ends[0].lacks.Store(&map[string]bool{"square": true})
		ctx := d.ctx()
		start := time.Now()
		early, other := f.square.Go(ctx, 2), f.where.Go(ctx)
		mapped := f.square.Map(ctx, []int{1, 2, 3})
		nodetest.Want(t, ctx, other, "worker")
		for _, r := range append(mapped, early) {
			if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrUnknownFunc) || !strings.Contains(err.Error(), "worker") {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
		if waited := time.Since(start); waited < 5*time.Second || waited > 15*time.Second {
			t.Errorf("it took %v", waited)
		}
		late := f.square.Go(ctx, 5)
		more := f.square.Map(ctx, []int{1, 2, 3})
		<-time.After(time.Second)
		join(t, d, v)
		nodetest.Want(t, ctx, late, 25)
		nodetest.Want(t, ctx, more[2], 9)
		l.ends[0].lacks.Store(&map[string]bool{})
		nodetest.Want(t, ctx, f.square.Go(ctx, 6), 36)
	})
}

// Tasks that wait for others do not keep those from being sent, however many they are.
func TestFullOfDependants(t *testing.T) {
	f := newFunctions()
	d := newHost(t, "driver", f.table, 0, func(c *taskengine.Config) { c.QueueTasks = 5 })
	ctx := d.ctx()
	first := f.square.Go(ctx, 3)
	var refs []raysys.Ref[int]
	for range 5 {
		refs = append(refs, f.square.On(ctx, first))
	}
	join(t, d, newHost(t, "worker", f.table, 1))
	for _, r := range refs {
		nodetest.Want(t, ctx, r, 81)
	}
}
