package raysys_test

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var train = tasks.Define("train", func(ctx context.Context, epochs int) (string, error) {
	for epoch := range epochs {
		select {
		case <-raysys.Leaving(ctx): // the node drains: save what there is, and go on elsewhere
			return "", raysys.ErrLeaving
		case <-time.After(time.Millisecond): // the work of an epoch
			_ = epoch
		}
	}
	left, leaving := raysys.LeavesIn(ctx)
	return fmt.Sprintf("%d epochs, leaving: %v, %v left", epochs, leaving, left), nil
})

// A long task looks between its steps whether its node leaves. Alone, as here, no node leaves before its work is done.
func ExampleLeaving() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		fmt.Println(train.Go(ctx, 3).Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 3 epochs, leaving: false, 0s left <nil>
}
