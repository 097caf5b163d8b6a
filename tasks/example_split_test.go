package tasks_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// fib submits itself, so its variable is declared first and set in init: Go refuses a variable whose value refers to it.
var fib tasks.Task[int, int]

func init() {
	fib = tasks.Define("fib", func(ctx context.Context, n int) (int, error) {
		if n < 2 {
			return n, nil
		}
		a, b := fib.Go(ctx, n-1), fib.Go(ctx, n-2)
		x, err := a.Get(ctx)
		if err != nil {
			return 0, err
		}
		y, err := b.Get(ctx)
		return x + y, err
	})
}

// Tasks submit tasks. One that waits gives its CPU back, so that nesting never deadlocks, not even with one CPU.
func Example_splitATask() {
	err := system.Run(context.Background(), system.Config{Resources: raysys.Resources{CPU: 1}}, func(ctx context.Context) error {
		fmt.Println(fib.Go(ctx, 20).Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 6765 <nil>
}
