package grains_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// Echo is a grain that asks another one, which may ask back.
type Echo struct{}

// Ask asks other to ask this grain back.
func (e *Echo) Ask(ctx context.Context, other grains.Grain[Echo]) (string, error) {
	self, _ := echoes.Self(ctx)
	return answer.Call(ctx, other, self).Get(ctx)
}

// Answer asks the grain it was given for its name.
func (e *Echo) Answer(ctx context.Context, back grains.Grain[Echo]) (string, error) {
	name := echoName
	if self, _ := echoes.Self(ctx); self.ID().Key == "polite" {
		name = name.Reentrant() // come back in although the grain is in a turn, which waits for us
	}
	return name.Call(ctx, back).Get(ctx)
}

// Name returns the grain's name.
func (e *Echo) Name(ctx context.Context) (string, error) {
	id, _ := grains.Self(ctx)
	return "my name is " + id.Key, nil
}

var (
	echoes   = grains.Define[Echo]("echo")
	ask      grains.Func[Echo, grains.Grain[Echo], string]
	answer   grains.Func[Echo, grains.Grain[Echo], string]
	echoName = grains.Method0(echoes, "name", (*Echo).Name)
)

// Methods that name each other's handles are made in init, since package variables must not depend on themselves.
func init() {
	ask = grains.Method(echoes, "ask", (*Echo).Ask)
	answer = grains.Method(echoes, "answer", (*Echo).Answer)
}

// A grain asks a second one, which asks back. A reentrant call is let in; any other would wait for ever, and is refused
// with the chain of the calls.
func Example_callBack() {
	err := system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		fmt.Println(ask.Call(ctx, echoes.Get("alice"), echoes.Get("polite")).Get(ctx))

		_, err := ask.Call(ctx, echoes.Get("alice"), echoes.Get("rude")).Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrCycle))
		if cycle, ok := errors.AsType[*raysys.CycleError](err); ok {
			fmt.Println(len(cycle.Chain), "turns, from the one that waits back to itself")
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// my name is alice <nil>
	// true
	// 3 turns, from the one that waits back to itself
}
