//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

type customer struct {
	Name string `json:"name"`
}

type bill struct {
	Customer *customer
	Lines    []struct{ Amount int }
}

// nest has itself in it.
type nest []nest

// nowhere has an UnmarshalJSON that fails as code does that nobody has tried.
type nowhere struct{ X int }

func (n *nowhere) UnmarshalJSON([]byte) error { panic("no such place") }

// What raysys start starts.
var (
	_ = tasks.Define("script-bill", func(ctx context.Context, b bill) (string, error) {
		raysys.Logger(ctx).Info("adding up", "lines", len(b.Lines))
		sum := 0
		for _, l := range b.Lines {
			sum += l.Amount
		}
		return fmt.Sprintf("%s owes %d", b.Customer.Name, sum), nil
	})
	_ = tasks.Define2("script-add", func(_ context.Context, a int, b float64) (float64, error) { return float64(a) + b, nil })
	_ = tasks.Define0("script-fails", func(context.Context) (int, error) { return 0, errors.New("the till is empty") })
	_ = tasks.Define("script-nest", func(_ context.Context, n nest) (int, error) { return len(n), nil })
	_ = tasks.Define("script-nowhere", func(_ context.Context, n nowhere) (int, error) { return n.X, nil })
)
