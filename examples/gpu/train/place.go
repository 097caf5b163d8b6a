package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// ErrElsewhere says that the trainer of a name is of the other kind: the CPU has the name, or a GPU does.
var ErrElsewhere = errors.New("the trainer of this name is elsewhere")

var _ = raysys.RegisterError("gpu.elsewhere", ErrElsewhere)

// Places of a trainer.
const (
	onGPU  = "a GPU"
	onHost = "the CPU"
)

// place remembers of a name whether a GPU or the CPU trains. The two are kinds of grains with States of their own, so that a name
// which changed from one to the other would begin anew.
type place struct{ saved grains.State[string] }

var places = grains.Define[place]("gpu.place")

var take = grains.Method(places, "take", (*place).Take).Idempotent()

// Take returns where the name's trainer is: at the place given, for a name that has none.
func (p *place) Take(ctx context.Context, at string) (string, error) {
	if p.saved.Exists() {
		return p.saved.Value, nil
	}
	p.saved.Value = at
	return at, p.saved.Write(ctx)
}

// takePlace takes the name of the trainer whose turn it is for that trainer.
func takePlace(ctx context.Context) error {
	self, _ := grains.Self(ctx)
	mine := onHost
	if len(raysys.Devices(ctx)) > 0 {
		mine = onGPU
	}
	at, err := take.Call(ctx, places.Get(self.Key), mine).Get(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("where trainer %s is: %w", self.Key, err)
	case at != mine:
		return fmt.Errorf("%w: %s has begun on %s", ErrElsewhere, self.Key, at)
	}
	return nil
}
