package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

// A handle with options is made once and reused.
func ExampleCPU() {
	ctx, stop := serve()
	defer stop()
	wide := square.With(raysys.CPU(2))
	fmt.Println(wide.Go(ctx, 4).Get(ctx))
	_, err := square.With(raysys.CPU(64)).Go(ctx, 4).Get(ctx)
	fmt.Println(errors.Is(err, raysys.ErrNoCapacity))
	// Output:
	// 16 <nil>
	// true
}

// Two tasks share the node's accelerator.
func ExampleGPU() {
	ctx, stop := serve()
	defer stop()
	half := square.With(raysys.GPU(0.5))
	fmt.Println(raysys.GetAll(ctx, half.Map(ctx, []int{1, 2, 3})).Values())
	// Output: [1 4 9] <nil>
}

func ExampleMemory() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(square.With(raysys.Memory(512<<20)).Go(ctx, 4).Get(ctx))
	// Output: 16 <nil>
}

func ExampleDeadline() {
	ctx, stop := serve()
	defer stop()
	_, err := forever.With(raysys.Deadline(time.Millisecond)).Go(ctx).Get(ctx)
	fmt.Println(errors.Is(err, raysys.ErrDeadline), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

// Bell is a grain.
type Bell struct{}

// Ring answers.
func (*Bell) Ring(ctx context.Context) (string, error) { return "ding", nil }

var (
	bells = grains.Define[Bell]("bell")
	ring  = grains.Method0(bells, "ring", (*Bell).Ring)
)

// A grain call is given up after 30 seconds unless it says otherwise.
func ExampleNoDeadline() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(ring.With(raysys.NoDeadline()).Call(ctx, bells.Get("door")).Get(ctx))
	// Output: ding <nil>
}

// Detached work outlives the context it was submitted under.
func ExampleDetached() {
	ctx, stop := serve()
	defer stop()
	request, cancel := context.WithCancel(ctx)
	r := forever.With(raysys.Detached()).Go(request)
	cancel()
	fmt.Println(raysys.PhaseOf(r))
	// Output: pending
}

// Work may ask for a kind of node, and for a rule to choose among them.
func ExamplePlacement() {
	o := core.NewOptions([]raysys.Option{raysys.Placement(raysys.Spread), raysys.Label("zone", "west")})
	fmt.Println(o.Strategy, o.Labels)
	// Output: spread map[zone:west]
}

func ExampleLabel() {
	fmt.Println(core.NewOptions([]raysys.Option{raysys.Label("disk", "ssd"), raysys.Label("zone", "west")}).Labels)
	// Output: map[disk:ssd zone:west]
}

// The task runs in one of two zones, and rather on the node gpu-1 than on another there.
func ExampleOnNode() {
	ctx, stop := serve()
	defer stop()
	near := square.With(raysys.Label("zone", "east", "west"), raysys.Prefer(raysys.OnNode("gpu-1")))
	fmt.Println(near.Go(ctx, 4).Get(ctx))
	// Output: 16 <nil>
}

// The second task runs where the result of the first is, if that is large.
func ExampleNear() {
	ctx, stop := serve()
	defer stop()
	r := square.Go(ctx, 4)
	fmt.Println(square.With(raysys.Near(r)).Go(ctx, 5).Get(ctx))
	// Output: 25 <nil>
}

// Neither on a spot instance nor on the node laptop.
func ExampleNot() {
	ctx, stop := serve()
	defer stop()
	safe := square.With(raysys.Not(raysys.Label("spot"), raysys.OnNode("laptop")))
	fmt.Println(safe.Go(ctx, 4).Get(ctx))
	// Output: 16 <nil>
}

// A preference is no reason to wait.
func ExamplePrefer() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(square.With(raysys.Prefer(raysys.Label("disk", "ssd"))).Go(ctx, 4).Get(ctx))
	// Output: 16 <nil>
}
