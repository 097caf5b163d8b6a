package tasks_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type total struct{ Parts []raysys.Ref[int] }

var (
	double = tasks.Define("double", func(ctx context.Context, x int) (int, error) { return 2 * x, nil })

	addUp = tasks.Define("add-up", func(ctx context.Context, t total) (int, error) {
		parts, err := raysys.GetAll(ctx, t.Parts).Values()
		all := 0
		for _, p := range parts {
			all += p
		}
		return all, err
	})
)

// Results go from task to task without a Get in between: On takes a parameter by reference, and references inside an
// argument are there when the task starts.
func Example_feedResultsToTasks() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		doubled := double.Map(ctx, []int{1, 2, 3})
		fmt.Println(double.On(ctx, addUp.Go(ctx, total{doubled})).Get(ctx))

		r := double.Go(ctx, 1)
		for range 9 {
			r = double.On(ctx, r)
		}
		fmt.Println(r.Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 24 <nil>
	// 1024 <nil>
}
