//go:build unix

package main

import (
	"context"
	"os"
	"strconv"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// purse is a durable grain with a State and a Map, which tells each deposit to a bell that no node may have.
type purse struct {
	Money grains.State[int]
	Lines grains.Map[string, int]
}

type bell struct{}

var (
	purses = grains.Define[purse]("script-purse", grains.Durable())
	bells  = grains.Define[bell]("script-bell", grains.Label("bell", "yes"))
	ring   = grains.Action(bells, "ring", func(*bell, context.Context, int) error { return nil })
	put    = grains.Action(purses, "put", (*purse).Put)
)

// Put takes a deposit.
func (p *purse) Put(ctx context.Context, n int) error {
	p.Money.Value += n
	p.Lines.Set("line "+strconv.Itoa(p.Lines.Len()+1), n)
	return ring.Tell(ctx, bells.Get("tower"), n)
}

// banker is a user's program. As a driver it makes deposits: KEY AMOUNT, again and again, each with a key of its own.
func banker() {
	system.Main(func(ctx context.Context) error {
		for i := 1; i+1 < len(os.Args); i += 2 {
			n, err := strconv.Atoi(os.Args[i+1])
			if err != nil {
				return err
			}
			key := raysys.Key("deposit " + strconv.Itoa(i))
			if _, err := put.With(key).Call(ctx, purses.Get(os.Args[i]), n).Get(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
