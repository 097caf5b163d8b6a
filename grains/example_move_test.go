package grains_test

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// Desk is a grain with a cache that begins anew where the grain moves to.
type Desk struct{ cache map[string]int }

// OnActivate makes what is in no State.
func (d *Desk) OnActivate(context.Context) error {
	d.cache = map[string]int{}
	return nil
}

// Ask is how often the desk was asked that since it is active on its node.
func (d *Desk) Ask(_ context.Context, what string) (int, error) {
	d.cache[what]++
	return d.cache[what], nil
}

// A kind that is Movable lets the nodes of a cluster even out their work: one that joins gets some of the grains.
func ExampleMovable() {
	table := raysys.NewTable()
	desks := grains.DefineIn[Desk](table, "desk", grains.Movable())
	ask := grains.Method(desks, "ask", (*Desk).Ask)
	n, err := system.New(system.Config{Table: table}) // in a cluster RAYSYS_REBALANCE says when grains move
	if err != nil {
		panic(err)
	}
	defer n.Close(context.Background())
	if err := n.Start(context.Background()); err != nil {
		panic(err)
	}
	ctx := n.Context(context.Background())
	for range 2 {
		fmt.Println(ask.Call(ctx, desks.Get("north"), "weather").Get(ctx))
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
}
