package groups_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var double = tasks.Define("double", func(_ context.Context, x int) (int, error) { return 2 * x, nil })

// serve starts a node; programs whose main is their own do this, others call system.Main.
func serve(cfg system.Config) (ctx context.Context, stop func()) {
	n, err := system.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := n.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	return n.Context(context.Background()), func() {
		if err := n.Close(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
}

// Two bundles on one node, a task in the first, and one that may be in either.
func ExampleCreate() {
	ctx, stop := serve(system.Config{Resources: raysys.Resources{CPU: 4}})
	defer stop()
	g, err := groups.Create(ctx, placement.StrictPack, []raysys.Resources{{CPU: 1}, {CPU: 2}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Wait(ctx))
	fmt.Println(double.With(g.Bundle(0)).Go(ctx, 21).Get(ctx))
	fmt.Println(double.With(raysys.CPU(2), g.AnyBundle(), groups.CaptureChildren()).Go(ctx, 4).Get(ctx))
	// Output:
	// <nil>
	// 42 <nil>
	// 8 <nil>
}

// A group with a name is found by it, until it is removed.
func ExampleLookup() {
	ctx, stop := serve(system.Config{Name: "laptop", Resources: raysys.Resources{CPU: 4}})
	defer stop()
	if _, err := groups.Create(ctx, placement.Spread, []raysys.Resources{{CPU: 1}, {CPU: 1}}, groups.Named("training"), groups.Detached()); err != nil {
		log.Fatal(err)
	}
	g, err := groups.Lookup(ctx, "training")
	fmt.Println(err)
	fmt.Println(g.Nodes(ctx))
	fmt.Println(g.Remove(ctx))
	_, err = groups.Lookup(ctx, "training")
	fmt.Println(errors.Is(err, raysys.ErrNotFound))
	// Output:
	// <nil>
	// [laptop laptop] <nil>
	// <nil>
	// true
}

// Ready is a reference: to wait for beside others, or an argument.
func ExampleGroup_Ready() {
	ctx, stop := serve(system.Config{Name: "laptop", Resources: raysys.Resources{CPU: 4}})
	defer stop()
	g, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 1}, {CPU: 2}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Ready(ctx).Get(ctx))
	fmt.Println(g.Remove(ctx))
	_, err = g.Ready(ctx).Get(ctx)
	fmt.Println(errors.Is(err, raysys.ErrGroupRemoved))
	// Output:
	// [laptop laptop] <nil>
	// <nil>
	// true
}
