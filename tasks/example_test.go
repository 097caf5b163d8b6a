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

// With returns a handle to keep.
func ExampleTask_With() {
	wide := double.With(raysys.CPU(2), raysys.Retries(0))
	ctx, stop := serve(system.Config{Resources: raysys.Resources{CPU: 2}})
	defer stop()
	fmt.Println(wide.Go(ctx, 21).Get(ctx))
	// Output: 42 <nil>
}
