package limit_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/grains/limit"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	// partner lets 2 requests at once go to each shop, whichever nodes they come from.
	partner = limit.AtMost("example.partner", 2)

	open, most atomic.Int32

	fetch = tasks.Define("example.fetch", func(ctx context.Context, shop string) (string, error) {
		p, err := limit.Take(ctx, partner, shop, 1)
		if err != nil {
			return "", err
		}
		defer p.Release()
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		<-time.After(time.Millisecond) // the request, with p.Context()
		return "prices of " + shop, nil
	})
)

// A hundred tasks ask one shop, which bears two requests at a time.
func Example() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		shops := make([]string, 100)
		for i := range shops {
			shops[i] = "north"
		}
		for _, ref := range fetch.Map(ctx, shops) {
			if _, err := ref.Get(ctx); err != nil {
				return err
			}
		}
		fmt.Println("at once:", most.Load() <= 2)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: at once: true
}
