package raysys_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// OutOfStock is an error that callers tell apart, on this node and on others.
type OutOfStock struct{ Item string }

func (e *OutOfStock) Error() string { return "out of stock: " + e.Item }

// Error types are registered under a stable name, as are types that stand in interface fields.
var _ = raysys.Register[*OutOfStock]("shop.OutOfStock")

var order = tasks.Define("order", func(ctx context.Context, item string) (int, error) {
	if item == "" {
		panic("no item")
	}
	return 0, &OutOfStock{item}
})

// A caller sees the program's own error; a panic fails its task and not the process. TaskError says where.
func Example_tellErrorsApart() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		for _, item := range []string{"lamp", ""} {
			_, err := order.Go(ctx, item).Get(ctx)
			if out, ok := errors.AsType[*OutOfStock](err); ok {
				fmt.Println("order another day:", out.Item)
			}
			if te, ok := errors.AsType[*raysys.TaskError](err); ok {
				fmt.Println(te.Function, te.Attempt, errors.Is(err, raysys.ErrPanic), len(te.Stack) > 0)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// order another day: lamp
	// order 1 false false
	// order 1 true true
}
