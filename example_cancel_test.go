package raysys_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	began, ended = make(chan int, 2), make(chan int, 2)

	// A branch works until its context ends.
	branch = tasks.Define("branch", func(ctx context.Context, i int) (int, error) {
		began <- i
		<-ctx.Done()
		ended <- i
		return 0, ctx.Err()
	})

	// A tree has two branches and waits for them.
	tree = tasks.Define0("tree", func(ctx context.Context) ([]int, error) {
		return raysys.GetAll(ctx, branch.Map(ctx, []int{1, 2})).Values()
	})
)

// Cancel ends a task and all that it submitted.
func Example_cancelATree() {
	err := system.Run(context.Background(), system.Config{Resources: raysys.Resources{CPU: 2}}, func(ctx context.Context) error {
		r := tree.Go(ctx)
		<-began
		<-began
		fmt.Println("cancelled:", r.Cancel())
		_, err := r.Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrCancelled), raysys.PhaseOf(r))
		fmt.Println("the sum of the branches that ended:", <-ended+<-ended)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// cancelled: true
	// true cancelled
	// the sum of the branches that ended: 3
}
