package grains_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// A Wallet keeps its money where a crash does not reach.
type Wallet struct {
	money grains.State[int] `raysys:"money"`
}

// Earn returns when the new amount is stored.
func (w *Wallet) Earn(ctx context.Context, d int) (int, error) {
	w.money.Value += d
	return w.money.Value, w.money.Write(ctx)
}

// Owned is a look into memory, which is what is stored.
func (w *Wallet) Owned(context.Context) (int, error) { return w.money.Value, nil }

// Known says whether there is anything stored, and whether it changed since tag was seen.
func (w *Wallet) Known(_ context.Context, tag string) (string, error) {
	return fmt.Sprintf("exists %v, changed %v", w.money.Exists(), w.money.ETag() != tag), nil
}

// Forget removes what is stored.
func (w *Wallet) Forget(ctx context.Context) error { return w.money.Clear(ctx) }

// Guess thinks better of it.
func (w *Wallet) Guess(ctx context.Context, v int) (int, error) {
	w.money.Value = v
	err := w.money.Read(ctx)
	return w.money.Value, err
}

var (
	walletTable = raysys.NewTable()
	wallets     = grains.DefineIn[Wallet](walletTable, "wallet")
	earn        = grains.Method(wallets, "earn", (*Wallet).Earn)
	owned       = grains.Method0(wallets, "owned", (*Wallet).Owned).ReadOnly()
	known       = grains.Method(wallets, "known", (*Wallet).Known)
	guess       = grains.Method(wallets, "guess", (*Wallet).Guess)
	forget      = grains.Action0(wallets, "forget", (*Wallet).Forget)
)

// storing starts a node that keeps States.
func storing() (ctx context.Context, end func()) {
	n, err := system.New(system.Config{Table: walletTable})
	if err != nil {
		panic(err)
	}
	if err := n.Start(context.Background()); err != nil {
		panic(err)
	}
	return n.Context(context.Background()), func() { _ = n.Close(context.Background()) }
}

func ExampleState_Read() {
	ctx, end := storing()
	defer end()
	_, _ = earn.Call(ctx, wallets.Get("ann"), 7).Get(ctx)
	fmt.Println(guess.Call(ctx, wallets.Get("ann"), 1000).Get(ctx))
	// Output: 7 <nil>
}

func ExampleState_Clear() {
	ctx, end := storing()
	defer end()
	_, _ = earn.Call(ctx, wallets.Get("ann"), 7).Get(ctx)
	_, err := forget.Call(ctx, wallets.Get("ann")).Get(ctx)
	fmt.Println(err)
	fmt.Println(owned.Call(ctx, wallets.Get("ann")).Get(ctx))
	// Output:
	// <nil>
	// 0 <nil>
}

func ExampleState_Exists() {
	ctx, end := storing()
	defer end()
	fmt.Println(known.Call(ctx, wallets.Get("ann"), "").Get(ctx))
	_, _ = earn.Call(ctx, wallets.Get("ann"), 7).Get(ctx)
	fmt.Println(known.Call(ctx, wallets.Get("ann"), "").Get(ctx))
	// Output:
	// exists false, changed false <nil>
	// exists true, changed true <nil>
}

// An ETag is for clients that want to know whether what they saw is still so.
func ExampleState_ETag() {
	ctx, end := storing()
	defer end()
	fmt.Println(known.Call(ctx, wallets.Get("ann"), "").Get(ctx))
	// Output: exists false, changed false <nil>
}

func ExamplePlacement() {
	tb := raysys.NewTable()
	grains.DefineIn[Account](tb, "account", grains.Placement(raysys.ByHash)) // accounts of one key live where its other grains do
	grains.DefineIn[Account](tb, "wrong", grains.Placement(""))
	fmt.Println(errors.Is(tb.Freeze(), raysys.ErrBadDefinition))
	// Output: true
}

func ExampleLabel() {
	tb := raysys.NewTable()
	grains.DefineIn[Account](tb, "trainer", grains.Label("gpu", "h200"), grains.Label("zone", "b"))
	fmt.Println(tb.Freeze())
	// Output: <nil>
}
