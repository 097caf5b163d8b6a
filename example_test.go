package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var square = tasks.Define("square", func(ctx context.Context, x int) (int, error) { return x * x, nil })

var root = tasks.Define("root", func(ctx context.Context, x int) (int, error) {
	for r := 0; r <= x; r++ {
		if r*r == x {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%d is no square", x)
})

var forever = tasks.Define0("forever", func(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
})

// serve starts a node; programs whose main is their own do this, others call system.Main.
func serve() (ctx context.Context, stop func()) {
	n, err := system.New(system.Config{Seed: 1, Resources: raysys.Resources{CPU: 2, GPU: 1, Memory: 1 << 30}})
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

// A task's result is a reference at once; another task can take it before it is there.
func Example() {
	ctx, stop := serve()
	defer stop()
	r := square.Go(ctx, 7)
	s := root.On(ctx, r)
	fmt.Println(s.Get(ctx))
	// Output: 7 <nil>
}

func ExampleRef_Get() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(square.Go(ctx, 3).Get(ctx))
	fmt.Println(root.Go(ctx, 3).Get(ctx))
	// Output:
	// 9 <nil>
	// 0 root: 3 is no square
}

// A Get on a derived context always returns in time; the work goes on.
func ExampleRef_Get_timeout() {
	ctx, stop := serve()
	defer stop()
	r := forever.Go(ctx)
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := r.Get(soon)
	fmt.Println(errors.Is(err, raysys.ErrDeadline), raysys.PhaseOf(r))
	// Output: true pending
}

type watch struct{ What raysys.Handle[int] }

var report = tasks.Define("report", func(ctx context.Context, w watch) (string, error) {
	return raysys.PhaseOf(w.What.Ref()).String(), nil
})

// A Ref inside an argument is waited for; a Handle is passed on as it is.
func ExampleRef_Handle() {
	ctx, stop := serve()
	defer stop()
	r := forever.Go(ctx)
	fmt.Println(report.Go(ctx, watch{r.Handle()}).Get(ctx))
	// Output: pending <nil>
}

var add = tasks.Define2("add", func(ctx context.Context, a, b int) (int, error) { return a + b, nil })

// On takes all parameters by reference; Ready turns a value into one.
func ExampleReady() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(add.On(ctx, square.Go(ctx, 3), raysys.Ready(1)).Get(ctx))
	// Output: 10 <nil>
}

// PhaseOf looks at a future without waiting and without fetching its value.
func ExamplePhaseOf() {
	ctx, stop := serve()
	defer stop()
	good, bad, open := square.Go(ctx, 2), root.Go(ctx, 2), forever.Go(ctx)
	refs := []raysys.Ref[int]{good, bad}
	if _, _, err := raysys.Wait(ctx, refs, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Println(raysys.PhaseOf(good), raysys.PhaseOf(bad), raysys.PhaseOf(open))
	// Output: ready failed pending
}

// One failure hides no other result.
func ExampleGetAll() {
	ctx, stop := serve()
	defer stop()
	for i, o := range raysys.GetAll(ctx, root.Map(ctx, []int{16, 17, 25})) {
		fmt.Println(i, o.Value, o.Err)
	}
	// Output:
	// 0 4 <nil>
	// 1 0 root: 17 is no square
	// 2 5 <nil>
}

// Values is for programs that need all of them.
func ExampleOutcomes_Values() {
	ctx, stop := serve()
	defer stop()
	fmt.Println(raysys.GetAll(ctx, root.Map(ctx, []int{16, 25})).Values())
	fmt.Println(raysys.GetAll(ctx, root.Map(ctx, []int{16, 17})).Values())
	// Output:
	// [4 5] <nil>
	// [] outcome 1 of 2: root: 17 is no square
}

// Wait returns with the first that have settled, and the rest to wait for again.
func ExampleWait() {
	ctx, stop := serve()
	defer stop()
	refs := []raysys.Ref[int]{forever.Go(ctx), square.Go(ctx, 5)}
	ready, rest, err := raysys.Wait(ctx, refs, 1)
	fmt.Println(len(ready), len(rest), err)
	fmt.Println(ready[0].Get(ctx))
	// Output:
	// 1 1 <nil>
	// 25 <nil>
}

func ExampleWhy() {
	ctx, stop := serve()
	defer stop()
	r := square.Go(ctx, 3)
	r.Get(ctx)
	e, err := raysys.Why(ctx, r)
	fmt.Println(e.Name, e.State, err)
	// Output: square ready <nil>
}
