package bench

import (
	"context"
	"os"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/tasks"
)

// functions is the table of the functions that the rows call. It is the benchmark's own, apart from others of the
// binary.
var functions = raysys.NewTable()

// raw is the work of one task, and of one operation of the raw limits: as little as there can be.
func raw(x int) int { return x + 1 }

var increment = tasks.DefineIn(functions, "increment", func(_ context.Context, x int) (int, error) { return raw(x), nil })

// processOf says which process a task runs in.
var processOf = tasks.DefineIn(functions, "process", func(context.Context, int) (int, error) { return os.Getpid(), nil })

// makeList returns n objects by reference.
var makeList = tasks.DefineIn(functions, "make-list", func(ctx context.Context, n int) ([]raysys.Ref[int], error) {
	refs := make([]raysys.Ref[int], n)
	for i := range refs {
		refs[i] = raysys.Put(ctx, i)
	}
	return refs, nil
})

// addends is an argument that is all references: the task starts when every one of them is there.
type addends struct{ Refs []raysys.Ref[int] }

var sum = tasks.DefineIn(functions, "sum", func(ctx context.Context, a addends) (int, error) {
	total := 0
	for _, r := range a.Refs {
		v, err := r.Get(ctx)
		if err != nil {
			return 0, err
		}
		total += v
	}
	return total, nil
})

// counter is the grain of the actor rows: one word of state.
type counter struct{ n int }

func (c *counter) add(_ context.Context, d int) (int, error) {
	c.n += d
	return c.n, nil
}

// where says which process the grain is in.
func (c *counter) where(context.Context) (int, error) { return os.Getpid(), nil }

var (
	counters = grains.DefineIn[counter](functions, "counter")
	add      = grains.Method(counters, "add", (*counter).add)
	where    = grains.Method0(counters, "where", (*counter).where)
)

// group is that of allreduce_small.
var group = collective.DefineIn[float32](functions, "bench-group")
