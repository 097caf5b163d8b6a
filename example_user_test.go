package raysys_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var user = raysys.NewContextKey[string]("user")

var greet = tasks.Define0("greet", func(ctx context.Context) (string, error) {
	name, ok := user.From(ctx)
	if !ok {
		return "", errors.New("no user")
	}
	return "hello " + name, nil
})

// A declared value travels with everything that is submitted under its context, to other nodes too.
func Example_sendTheUserAlong() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		fmt.Println(greet.Go(user.With(ctx, "alice")).Get(ctx))
		_, err := greet.Go(ctx).Get(ctx)
		fmt.Println(err)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello alice <nil>
	// greet: no user
}
