package tasks_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var double = tasks.Define("double", func(ctx context.Context, x int) (int, error) { return 2 * x, nil })

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

// A task is a function and a stable name, in a package variable.
func ExampleDefine() {
	ctx, stop := serve(system.Config{})
	defer stop()
	fmt.Println(double.Go(ctx, 21).Get(ctx))
	// Output: 42 <nil>
}

// fib calls itself, so its variable is declared first and set in init: Go refuses a variable whose value refers to it.
var fib tasks.Task[int, int]

func init() {
	fib = tasks.Define("fib", func(ctx context.Context, n int) (int, error) {
		if n < 2 {
			return n, nil
		}
		a, b := fib.Go(ctx, n-1), fib.Go(ctx, n-2)
		x, err := a.Get(ctx)
		if err != nil {
			return 0, err
		}
		y, err := b.Get(ctx)
		return x + y, err
	})
}

// A task that submits itself.
func ExampleDefine_recursive() {
	ctx, stop := serve(system.Config{})
	defer stop()
	fmt.Println(fib.Go(ctx, 15).Get(ctx))
	// Output: 610 <nil>
}

var answer = tasks.Define0("answer", func(ctx context.Context) (int, error) { return 42, nil })

func ExampleDefine0() {
	ctx, stop := serve(system.Config{})
	defer stop()
	fmt.Println(answer.Go(ctx).Get(ctx))
	// Output: 42 <nil>
}

var repeat = tasks.Define2("repeat", func(ctx context.Context, s string, n int) (string, error) {
	return strings.Repeat(s, n), nil
})

func ExampleDefine2() {
	ctx, stop := serve(system.Config{})
	defer stop()
	fmt.Println(repeat.Go(ctx, "ab", 2).Get(ctx))
	fmt.Println(repeat.On(ctx, raysys.Ready("ab"), double.Go(ctx, 2)).Get(ctx))
	// Output:
	// abab <nil>
	// abababab <nil>
}

var replace = tasks.Define3("replace", func(ctx context.Context, s, from, to string) (string, error) {
	return strings.ReplaceAll(s, from, to), nil
})

func ExampleDefine3() {
	ctx, stop := serve(system.Config{})
	defer stop()
	fmt.Println(replace.Go(ctx, "a cat", "cat", "dog").Get(ctx))
	// Output: a dog <nil>
}

// Tests define tasks in a table of their own.
func ExampleDefineIn() {
	table := raysys.NewTable()
	triple := tasks.DefineIn(table, "triple", func(ctx context.Context, x int) (int, error) { return 3 * x, nil })
	ctx, stop := serve(system.Config{Table: table})
	defer stop()
	fmt.Println(triple.Go(ctx, 14).Get(ctx))
	// Output: 42 <nil>
}

func ExampleDefine0In() {
	table := raysys.NewTable()
	hello := tasks.Define0In(table, "hello", func(ctx context.Context) (string, error) { return "hello", nil })
	ctx, stop := serve(system.Config{Table: table})
	defer stop()
	fmt.Println(hello.Go(ctx).Get(ctx))
	// Output: hello <nil>
}

func ExampleDefine2In() {
	table := raysys.NewTable()
	add := tasks.Define2In(table, "add", func(ctx context.Context, a, b int) (int, error) { return a + b, nil })
	ctx, stop := serve(system.Config{Table: table})
	defer stop()
	fmt.Println(add.Go(ctx, 40, 2).Get(ctx))
	// Output: 42 <nil>
}

func ExampleDefine3In() {
	table := raysys.NewTable()
	clamp := tasks.Define3In(table, "clamp", func(ctx context.Context, x, lo, hi int) (int, error) { return min(max(x, lo), hi), nil })
	ctx, stop := serve(system.Config{Table: table})
	defer stop()
	fmt.Println(clamp.Go(ctx, 99, 0, 42).Get(ctx))
	// Output: 42 <nil>
}

type total struct{ Parts []raysys.Ref[int] }

var addUp = tasks.Define("add-up", func(ctx context.Context, t total) (int, error) {
	parts, err := raysys.GetAll(ctx, t.Parts).Values()
	all := 0
	for _, p := range parts {
		all += p
	}
	return all, err
})

// Go submits and returns at once. References inside the argument are there when the task starts.
func ExampleTask_Go() {
	ctx, stop := serve(system.Config{})
	defer stop()
	fmt.Println(addUp.Go(ctx, total{double.Map(ctx, []int{1, 2, 3})}).Get(ctx))
	// Output: 12 <nil>
}

// On takes the parameter by reference: dataflow, without a Get in between.
func ExampleTask_On() {
	ctx, stop := serve(system.Config{})
	defer stop()
	r := double.Go(ctx, 1)
	for range 9 {
		r = double.On(ctx, r)
	}
	fmt.Println(r.Get(ctx))
	// Output: 1024 <nil>
}

// Map submits in bulk.
func ExampleTask_Map() {
	ctx, stop := serve(system.Config{})
	defer stop()
	fmt.Println(raysys.GetAll(ctx, double.Map(ctx, []int{1, 2, 3})).Values())
	// Output: [2 4 6] <nil>
}

// With returns a handle to keep.
func ExampleTask_With() {
	wide := double.With(raysys.CPU(2), raysys.Retries(0))
	ctx, stop := serve(system.Config{Resources: raysys.Resources{CPU: 2}})
	defer stop()
	fmt.Println(wide.Go(ctx, 21).Get(ctx))
	// Output: 42 <nil>
}

var fibonacci tasks.Task[int, int]

func init() {
	fibonacci = tasks.Define("fibonacci", func(ctx context.Context, n int) (int, error) {
		if n < 2 {
			return n, nil
		}
		a, b := fibonacci.Go(ctx, n-1), fibonacci.Go(ctx, n-2)
		x, err := a.Get(ctx)
		if err != nil {
			return 0, err
		}
		y, err := b.Get(ctx)
		return x + y, err
	})
}

// Tasks submit tasks. One that waits gives its CPU back, so that nesting never deadlocks.
func Example_nested() {
	ctx, stop := serve(system.Config{Resources: raysys.Resources{CPU: 1}})
	defer stop()
	fmt.Println(fibonacci.Go(ctx, 20).Get(ctx))
	// Output: 6765 <nil>
}
