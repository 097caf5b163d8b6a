package queue_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains/queue"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	numbers = queue.Define[int]("example.numbers", queue.Size(10))

	// produce puts numbers into a queue, and waits where its consumers are slower.
	produce = tasks.Define("example.produce", func(ctx context.Context, to int) (int, error) {
		q := numbers.Get("squares")
		for i := range to {
			if err := q.Put(ctx, i*i); err != nil {
				return i, err
			}
		}
		return to, q.Close(ctx)
	})
)

// A task puts numbers into a queue that has room for ten, and the program takes them as they come.
func Example() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		made, sum := produce.Go(ctx, 1000), 0
		for n, err := range numbers.Get("squares").All(ctx) {
			if err != nil {
				return err
			}
			sum += n
		}
		n, err := made.Get(ctx)
		fmt.Println(n, "numbers, in all", sum)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 1000 numbers, in all 332833500
}
