package tasks_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// split has several results: each is a value of its own, where the task ran, and what the caller gets are handles to them.
var split = tasks.Define("split", func(ctx context.Context, n int) ([]raysys.Handle[[]int], error) {
	even, odd := []int{}, []int{}
	for i := range n {
		if i%2 == 0 {
			even = append(even, i)
		} else {
			odd = append(odd, i)
		}
	}
	return []raysys.Handle[[]int]{raysys.Put(ctx, even).Handle(), raysys.Put(ctx, odd).Handle()}, nil
})

// pick is one of several results.
var pick = tasks.Define2("pick", func(ctx context.Context, parts []raysys.Handle[[]int], i int) ([]int, error) {
	return parts[i].Ref().Get(ctx)
})

var merge = tasks.Define2("merge", func(ctx context.Context, a, b []int) ([]int, error) { return append(a[:len(a):len(a)], b...), nil })

// A task with several results puts each, and returns their handles. Another takes one of them, and the others stay where they are. Reduce joins
// any number in a tree, in their order.
func Example_severalResults() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		parts := split.Go(ctx, 6)
		var odd []raysys.Ref[[]int]
		for range 3 {
			odd = append(odd, pick.On(ctx, parts, raysys.Ready(1)))
		}
		fmt.Println(odd[0].Get(ctx))
		fmt.Println(tasks.Reduce(ctx, merge, odd).Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// [1 3 5] <nil>
	// [1 3 5 1 3 5 1 3 5] <nil>
}
