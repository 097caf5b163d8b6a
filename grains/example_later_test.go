package grains_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// A Gate keeps those who pass until it is opened.
type Gate struct {
	open    bool
	waiting []*grains.Later[string]
}

// Pass answers when the gate is open.
func (g *Gate) Pass(_ context.Context, name string, l *grains.Later[string]) error {
	if name == "" {
		return errors.New("no name") // answers at once
	}
	if g.open {
		return l.Settle("welcome")
	}
	g.waiting = append(g.waiting, l)
	return nil
}

// Open lets all pass.
func (g *Gate) Open(context.Context) error {
	g.open = true
	for _, l := range g.waiting {
		_ = l.Settle("you have waited") // fails for a caller that has given up
	}
	g.waiting = nil
	return nil
}

var (
	gates = grains.Define[Gate]("gate")
	pass  = grains.LaterMethod(gates, "pass", (*Gate).Pass)
	open  = grains.Action0(gates, "open", (*Gate).Open)
)

// A method keeps its calls and answers them later, while other calls of the grain run.
func Example_answerLater() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		gate := gates.Get("north")
		early := pass.Call(ctx, gate, "alice")
		open.Call(ctx, gate)
		fmt.Println(early.Get(ctx))
		fmt.Println(pass.Call(ctx, gate, "bob").Get(ctx))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// you have waited <nil>
	// welcome <nil>
}
