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
	client = raysys.NewContextKey[string]("client")

	price = tasks.Define("price", func(ctx context.Context, item string) (int, error) {
		who, _ := client.From(ctx)
		return len(item) + len(who), nil
	})
)

// askClient refuses work of no client.
func askClient(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
	if _, ok := client.From(ctx); !ok {
		return errors.New("whose work is it?")
	}
	return next(ctx)
}

// A filter runs around all tasks and calls of a node, here to refuse those of nobody.
func ExampleFilter() {
	err := system.Run(context.Background(), system.Config{Filters: []raysys.Filter{askClient}}, func(ctx context.Context) error {
		fmt.Println(price.Go(client.With(ctx, "alice"), "apple").Get(ctx))
		fmt.Println(price.Go(ctx, "apple").Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 10 <nil>
	// 0 price: whose work is it?
}
