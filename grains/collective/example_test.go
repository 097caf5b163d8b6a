package collective_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	votes = collective.Define[int]("example.votes")

	count = tasks.Define2("example.count", func(ctx context.Context, rank, size int) (string, error) {
		m, err := votes.Join(ctx, "election", rank, size)
		if err != nil {
			return "", err
		}
		defer m.Leave()
		sum, err := m.AllReduce(ctx, []int{10 * rank, 1}, collective.Sum)
		if err != nil {
			return "", err
		}
		top, err := m.Reduce(ctx, 0, []int{10 * rank}, collective.Max)
		if err != nil {
			return "", err
		}
		word, err := m.Broadcast(ctx, 2, []int{rank})
		if err != nil {
			return "", err
		}
		return fmt.Sprint("rank ", m.Rank(), " of ", m.Size(), ": ", sum, top, word), m.Barrier(ctx)
	})
)

func Example() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		refs := []raysys.Ref[string]{count.Go(ctx, 0, 3), count.Go(ctx, 1, 3), count.Go(ctx, 2, 3)}
		lines, err := raysys.GetAll(ctx, refs).Values()
		for _, l := range lines {
			fmt.Println(l)
		}
		return err
	})
	// Output:
	// rank 0 of 3: [30 3] [20] [2]
	// rank 1 of 3: [30 3] [] [2]
	// rank 2 of 3: [30 3] [] [2]
}
