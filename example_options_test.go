package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
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

// At most as many run at the same time as the node has licences (system.Config.Resources).
func ExampleResource() {
	ctx, stop := serve()
	defer stop()
	licensed := square.With(raysys.Resource("licence", 1))
	fmt.Println(raysys.GetAll(ctx, licensed.Map(ctx, []int{1, 2, 3})).Values())
	// Output: [1 4 9] <nil>
}

var errBusy = errors.New("busy")

var calls int

var shaky = tasks.Define0("shaky", func(ctx context.Context) (string, error) {
	if calls++; calls < 3 {
		return "", errBusy
	}
	return fmt.Sprintf("answered call %d", calls), nil
})

// Errors of the application are values; only those that RetryIf accepts are worth another attempt.
func ExampleRetryIf() {
	ctx, stop := serve()
	defer stop()
	calls = 0
	_, err := shaky.Go(ctx).Get(ctx)
	fmt.Println(err)
	patient := shaky.With(
		raysys.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }),
		raysys.Backoff(time.Millisecond, time.Second),
	)
	fmt.Println(patient.Go(ctx).Get(ctx))
	// Output:
	// shaky: busy
	// answered call 3 <nil>
}

// No attempt follows the first two.
func ExampleRetries() {
	ctx, stop := serve()
	defer stop()
	calls = 0
	twice := shaky.With(raysys.RetryIf(func(error) bool { return true }), raysys.Retries(1))
	_, err := twice.Go(ctx).Get(ctx)
	fmt.Println(err)
	// Output: shaky (attempt 2): busy
}

// The pause before a retry doubles from the first to the second duration, with jitter.
func ExampleBackoff() {
	ctx, stop := serve()
	defer stop()
	calls = 0
	eager := shaky.With(raysys.RetryIf(func(error) bool { return true }), raysys.Backoff(0, 0))
	fmt.Println(eager.Go(ctx).Get(ctx))
	// Output: answered call 3 <nil>
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

// A detached task with a name outlives its driver, and every node of the cluster finds it.
func ExampleDetached_name() {
	kv, err := embedded.Open(embedded.Config{}) // in the place of Consul
	if err != nil {
		log.Fatal(err)
	}
	defer kv.Close()
	n, err := system.New(system.Config{Name: "n1", Cluster: &system.ClusterConfig{Store: kv, Role: system.Both}})
	if err != nil {
		log.Fatal(err)
	}
	if err := n.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())
	square.With(raysys.Detached("nightly")).Go(ctx, 12) // returns when the task is recorded
	fmt.Println(raysys.Lookup[int](ctx, "nightly").Get(ctx))
	// Output: 144 <nil>
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
