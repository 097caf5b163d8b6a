package testkit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

type bank struct{}

// Charge asks a bank over the network.
func (*bank) Charge(context.Context, int) (string, error) { return "", errors.New("no network") }

var (
	banks  = grains.Define[bank]("bank")
	charge = grains.Method(banks, "charge", (*bank).Charge)

	// checkout is what the test is about.
	checkout = tasks.Define("checkout", func(ctx context.Context, euros int) (string, error) {
		return charge.Call(ctx, banks.Get("savings"), euros).Get(ctx)
	})
)

// A test of a task that calls a grain, without what that grain needs.
func ExampleFake() {
	t := &fake{} // in a test: its *testing.T
	t.run(func() {
		ctx := testkit.New(t, testkit.Fake(charge, func(_ context.Context, key string, euros int) (string, error) {
			if euros > 100 {
				return "", raysys.ErrUnreachable
			}
			return fmt.Sprintf("%d euros by bank %s", euros, key), nil
		})).Context()
		fmt.Println(checkout.Go(ctx, 20).Get(ctx))
		_, err := checkout.Go(ctx, 200).Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrUnreachable))
	})
	// Output:
	// 20 euros by bank savings <nil>
	// true
}
