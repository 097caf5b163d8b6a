package raysys_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// Goroutines that submit side by side take a Branch each, and all ids stay the same in every run.
func ExampleBranch() {
	ctx, stop := serve()
	defer stop()
	sums := make([]int, 3)
	var group sync.WaitGroup
	for i := range sums {
		group.Go(func() {
			own := raysys.Branch(ctx, i)
			for _, o := range raysys.GetAll(own, square.Map(own, []int{i, i + 1})) {
				sums[i] += o.Value
			}
		})
	}
	group.Wait()
	fmt.Println(sums)
	// Output: [1 5 13]
}

var welcome = tasks.Define("welcome", func(ctx context.Context, name string) (string, error) {
	raysys.Logger(ctx).Info("greeting", "name", name) // on standard error of the node and of its driver: 12:00:00.000 INFO (welcome node-2) greeting {"name": "Ada"}
	return "hello " + name, nil
})

// Logger says where the work runs, what it is and whose, in each line.
func ExampleLogger() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(welcome.Go(ctx, "Ada").Get(ctx))
	// Output: hello Ada <nil>
}

var roll = tasks.Define("roll", func(ctx context.Context, sides int) (int, error) {
	return 1 + raysys.Rand(ctx).IntN(sides), nil
})

// Rand is seeded by the task's id, so a run under the same seed draws the same numbers.
func ExampleRand() {
	dice := func() (int, error) {
		ctx, stop := serve() // under a fixed seed
		defer stop()
		return roll.Go(ctx, 1_000_000).Get(ctx)
	}
	a, _ := dice()
	b, _ := dice()
	fmt.Println(a == b)
	// Output: true
}

// Retriable says whether a later attempt may do better.
func ExampleRetriable() {
	fmt.Println(raysys.Retriable(raysys.ErrOverloaded), raysys.Retriable(raysys.ErrNoCapacity))
	// Output: true false
}
