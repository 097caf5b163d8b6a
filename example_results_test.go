package raysys_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var half = tasks.Define("half", func(ctx context.Context, n int) (int, error) { return n / 2, nil })

// Results are taken in the order in which they are there. A RefSet grows while its loop takes them: each number of more
// than 10 is halved once more.
func Example_takeResultsAsTheyCome() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		var open raysys.RefSet[int]
		for _, r := range half.Map(ctx, []int{20, 100}) {
			open.Add(r)
		}
		for _, r := range open.AsCompleted(ctx) {
			n, err := r.Get(ctx)
			if err != nil {
				return err
			}
			fmt.Println(n)
			if n > 10 {
				open.Add(half.Go(ctx, n))
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// 10
	// 50
	// 25
	// 12
	// 6
}
