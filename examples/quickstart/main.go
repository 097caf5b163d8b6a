// Command quickstart is the program of the README: a task, a grain, and a reference from one to the other.
package main

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var square = tasks.Define("square", func(ctx context.Context, x int) (int, error) { return x * x, nil })

type Counter struct{ n int }

func (c *Counter) Add(ctx context.Context, d int) (int, error) { c.n += d; return c.n, nil }

var (
	counters = grains.Define[Counter]("counter")
	add      = grains.Method(counters, "add", (*Counter).Add)
)

func main() {
	system.Main(func(ctx context.Context) error {
		sq := square.Go(ctx, 7)                                   // a future, at once
		v, err := add.On(ctx, counters.Get("alice"), sq).Get(ctx) // the grain is called when sq is there
		fmt.Println(v, err)                                       // 49 <nil>
		return err
	})
}
