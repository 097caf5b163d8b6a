package grains_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

var errPoor = errors.New("not enough")

// Purse takes and gives money; each call is a transaction.
type Purse struct{ money grains.State[int] }

// Move needs no Write: what it leaves in money is stored with its result, or given back with its error.
func (p *Purse) Move(_ context.Context, d int) (int, error) {
	p.money.Value += d
	if p.money.Value < 0 {
		return 0, errPoor
	}
	return p.money.Value, nil
}

// Owned looks.
func (p *Purse) Owned(context.Context) (int, error) { return p.money.Value, nil }

func ExampleDurable() {
	table := raysys.NewTable()
	purses := grains.DefineIn[Purse](table, "purse", grains.Durable())
	move := grains.Method(purses, "move", (*Purse).Move)
	owned := grains.Method0(purses, "owned", (*Purse).Owned).ReadOnly()
	n, err := system.New(system.Config{Table: table})
	if err != nil {
		panic(err)
	}
	if err := n.Start(context.Background()); err != nil {
		panic(err)
	}
	defer func() { _ = n.Close(context.Background()) }()
	ctx, ann := n.Context(context.Background()), purses.Get("ann")
	fmt.Println(move.Call(ctx, ann, 5).Get(ctx))
	_, err = move.Call(ctx, ann, -7).Get(ctx)
	fmt.Println(errors.Is(err, errPoor))
	fmt.Println(owned.Call(ctx, ann).Get(ctx))
	// Output:
	// 5 <nil>
	// true
	// 5 <nil>
}
