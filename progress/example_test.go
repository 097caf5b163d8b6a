package progress_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/progress"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var square = tasks.Define("square", func(ctx context.Context, x int) (int, error) { return x * x, nil })

// The loop is that over raysys.AsCompleted. A person at a terminal sees on its last row how far it is.
func ExampleAsCompleted() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		sum := 0
		for _, r := range progress.AsCompleted(ctx, "squares", square.Map(ctx, []int{1, 2, 3})) {
			n, err := r.Get(ctx)
			if err != nil {
				return err
			}
			sum += n
		}
		fmt.Println(sum)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 14
}
