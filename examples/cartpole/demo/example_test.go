package demo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/raysys/raysys/examples/cartpole/demo"
	"github.com/raysys/raysys/system"
)

// Both halves on a node of one's own. The goal is a modest one here, so that the example is quick.
func Example() {
	node, err := system.New(system.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := node.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close(context.Background())
	ctx := node.Context(context.Background())

	o := demo.Defaults()
	o.Goal, o.Serve = 40, 50*time.Millisecond
	learned, err := demo.Learn(ctx, o, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	served, err := demo.Serve(ctx, learned.Weights, o, nil)
	fmt.Println(learned.MeanReturn >= 40, served.Requests > 0, err)
	// Output: true true <nil>
}

// A budget that is too small.
func ExampleRun() {
	o := demo.Defaults()
	o.Steps = 1000
	err := demo.Run(context.Background(), o, os.Stdout, io.Discard)
	fmt.Println(errors.Is(err, demo.ErrNotLearned))
	// Output: true
}
