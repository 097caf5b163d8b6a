package raysys_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	count = tasks.Define("count", func(ctx context.Context, words []string) (int, error) { return len(words), nil })

	collect = tasks.Define0("collect", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
)

// A detached task with a name is a job: it outlives its driver, and every node of the cluster finds it by its name, takes
// its result, ends it and frees its name.
func Example_nameAJob() {
	kv, err := embedded.Open(embedded.Config{}) // in the place of Consul
	if err != nil {
		fmt.Println(err)
		return
	}
	defer kv.Close()
	cfg := system.Config{Name: "n1", Cluster: &system.ClusterConfig{Store: kv, Role: system.Both}}
	err = system.Run(context.Background(), cfg, func(ctx context.Context) error {
		count.With(raysys.Detached("nightly")).Go(ctx, []string{"a", "b"}) // returns when the task is recorded
		fmt.Println(raysys.Lookup[int](ctx, "nightly").Get(ctx))

		collect.With(raysys.Detached("collect")).Go(ctx)
		fmt.Println(raysys.Lookup[int](ctx, "collect").Cancel())
		_, err := raysys.Lookup[int](ctx, "collect").Get(ctx) // its outcome stays
		fmt.Println(errors.Is(err, raysys.ErrCancelled))

		fmt.Println(raysys.Forget(ctx, "collect"))
		_, err = raysys.Lookup[int](ctx, "collect").Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrNotFound))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2 <nil>
	// true
	// true
	// <nil>
	// true
}
