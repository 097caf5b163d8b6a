package raysys_test

import (
	"context"
	"errors"
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

var user = raysys.NewContextKey[string]("user")

var greet = tasks.Define0("greet", func(ctx context.Context) (string, error) {
	name, ok := user.From(ctx)
	if !ok {
		return "", errors.New("nobody is there")
	}
	return "hello " + name, nil
})

// Declared values travel with everything that is submitted under their context.
func ExampleKey() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(greet.Go(user.With(ctx, "alice")).Get(ctx))
	// Output: hello alice <nil>
}

// OutOfStock is an error that callers tell apart, on this node and on others.
type OutOfStock struct{ Item string }

func (e *OutOfStock) Error() string { return "out of stock: " + e.Item }

var _ = raysys.Register[*OutOfStock]("shop.OutOfStock")

var order = tasks.Define("order", func(ctx context.Context, item string) (int, error) {
	return 0, &OutOfStock{item}
})

// Error types, and types that stand in interface fields, are registered under a stable name.
func ExampleRegister() {
	ctx, stop := serve()
	defer stop()
	_, err := order.Go(ctx, "lamp").Get(ctx)
	var out *OutOfStock
	fmt.Println(errors.As(err, &out), out.Item)
	// Output: true lamp
}

var divide = tasks.Define2("divide", func(ctx context.Context, a, b int) (int, error) { return a / b, nil })

// A panic in user code fails the task and not the process; TaskError says where.
func ExampleTaskError() {
	ctx, stop := serve()
	defer stop()
	_, err := divide.Go(ctx, 1, 0).Get(ctx)
	var te *raysys.TaskError
	if errors.As(err, &te) {
		fmt.Println(te.Function, te.Attempt, errors.Is(err, raysys.ErrPanic), len(te.Stack) > 0)
	}
	// Output: divide 1 true true
}

// Retriable says whether a later attempt may do better.
func ExampleRetriable() {
	fmt.Println(raysys.Retriable(raysys.ErrOverloaded), raysys.Retriable(raysys.ErrNoCapacity))
	// Output: true false
}
