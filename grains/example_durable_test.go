package grains_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

var (
	purses  = grains.Define[Purse]("purse", grains.Durable())
	move    = grains.Method(purses, "move", (*Purse).Move)
	inPurse = grains.Method0(purses, "owned", (*Purse).Owned).ReadOnly()
)

// A call of a Durable grain that fails leaves nothing behind, and one that succeeds is stored before its caller hears of it.
func Example_makeACallATransaction() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		ann := purses.Get("ann")
		fmt.Println(move.Call(ctx, ann, 5).Get(ctx))
		_, err := move.Call(ctx, ann, -7).Get(ctx)
		fmt.Println(errors.Is(err, errPoor))
		fmt.Println(inPurse.Call(ctx, ann).Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 5 <nil>
	// true
	// 5 <nil>
}

// A call with a key counts once, whichever run of the program makes it again. FirstMade makes that so also when the grain has forgotten the
// key: the call fails then.
func Example_nameACall() {
	placed := time.Now().Add(-time.Minute) // of the order
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		order := move.With(raysys.Key("order-17"), raysys.FirstMade(placed))
		fmt.Println(order.Call(ctx, purses.Get("bob"), 5).Get(ctx))
		fmt.Println(order.Call(ctx, purses.Get("bob"), 5).Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 5 <nil>
	// 5 <nil>
}
