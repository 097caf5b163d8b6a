package tasks_test

import (
	"context"
	"errors"
	"testing"

	"github.com/raysys/raysys"
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
		t, _, err := raysys.TurnOf(ctx)
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
	want(t, ctx, early, 9)
	if v, err := f.square.Go(ctx, 4).Get(ctx); v != 16 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	want(t, ctx, f.where.Go(ctx), "worker")
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
		want(t, ctx, r, (i%1000)*(i%1000))
	}
}
