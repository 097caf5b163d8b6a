package guide_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// A Purse keeps its money too, and each call is a transaction.
type Purse struct {
	Money grains.State[int]
}

func (p *Purse) Pay(ctx context.Context, n int) (int, error) {
	p.Money.Value -= n
	if p.Money.Value < 0 {
		return 0, errFunds // gives Money back what it held
	}
	return p.Money.Value, nil // stored together with this result; no Write
}

var (
	purses = grains.Define[Purse]("guide.grains.purse", grains.Durable())
	spend  = grains.Method(purses, "pay", (*Purse).Pay)
	order  = spend.With(raysys.Key("order-17")) // made again, by another run of the program too, it counts once
)

// An Order is paid once.
type Order struct {
	ID    string
	At    time.Time
	Cents int
}

func payOrder(ctx context.Context, p grains.Grain[Purse], o Order) (int, error) {
	// o has its time from its first attempt, wherever the program stores it
	return spend.With(raysys.Key(o.ID), raysys.FirstMade(o.At)).Call(ctx, p, o.Cents).Get(ctx)
}

// A Gift goes to another purse.
type Gift struct {
	To    string
	Cents int
}

func (p *Purse) Take(_ context.Context, n int) error {
	p.Money.Value += n
	return nil
}

func (p *Purse) Give(ctx context.Context, g Gift) error {
	p.Money.Value -= g.Cents
	if p.Money.Value < 0 {
		return errFunds // and nothing is told
	}
	return take.Tell(ctx, purses.Get(g.To), g.Cents) // arrives once, also when this node dies now
}

func (p *Purse) Left(context.Context) (int, error) { return p.Money.Value, nil }

var (
	take = grains.Action(purses, "take", (*Purse).Take)
	give = grains.Action(purses, "give", (*Purse).Give)
	left = grains.Method0(purses, "left", (*Purse).Left).ReadOnly()
)

// What is given arrives though the nodes of giver and receiver die; an order counts once.
func TestGiveToAnotherPurse(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		must := func(err error) {
			if err != nil {
				k.T().Fatal(err)
			}
		}
		ann, bob := purses.Get("giver"), purses.Get("receiver")
		_, err := take.Call(ctx, ann, 100).Get(ctx)
		must(err)
		o := Order{ID: "order-18", At: time.Now(), Cents: 10}
		for i := range 3 {
			_, err = give.Call(ctx, ann, Gift{To: "receiver", Cents: 20}).Get(ctx)
			must(err)
			if i > 0 {
				k.Cluster().Kill(i)
				k.Advance(20 * time.Second)
			}
			n, err := payOrder(ctx, ann, o)
			if must(err); n != 70 {
				k.T().Errorf("an order left %d", n)
			}
		}
		k.Advance(time.Minute)
		for g, want := range map[grains.Grain[Purse]]int{ann: 30, bob: 60} {
			if n, err := left.Call(ctx, g).Get(ctx); n != want || err != nil {
				k.T().Errorf("%s has %d of %d: %v", g, n, want, err)
			}
		}
	}, testkit.Nodes(4))
}

// A Line is an entry of a Cart.
type Line struct{ Count int }

type Cart struct {
	Lines grains.Map[string, Line]
}

func (c *Cart) Add(ctx context.Context, sku string) (int, error) {
	l, _ := c.Lines.Get(sku) // a copy
	l.Count++
	c.Lines.Set(sku, l) // this entry is stored with the turn, whatever the others are
	return c.Lines.Len(), nil
}

var (
	carts     = grains.Define[Cart]("guide.durable.cart", grains.Durable())
	addToCart = grains.Method(carts, "add", (*Cart).Add)
)

func Example_durableCarts() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		for _, sku := range []string{"pear", "apple", "pear"} {
			if _, err := addToCart.Call(ctx, carts.Get("eu/ann"), sku).Get(ctx); err != nil {
				return err
			}
		}
		for s, err := range grains.Stored(ctx, carts, "eu/") {
			if err != nil {
				return err // of s.Key; the walk could go on
			}
			fmt.Println(s.Key, s.State.Lines.Len())
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: eu/ann 2
}
