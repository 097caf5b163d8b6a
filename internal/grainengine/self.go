package grainengine

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// Self is grains.Self.
func Self(ctx context.Context) (graindir.ID, bool) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return graindir.ID{}, false
	}
	if a, ok := t.Attached().(*activation); ok && t.Kind() == core.TurnGrain {
		return graindir.ID{Kind: a.kind.def.name, Key: a.key}, true
	}
	return graindir.ID{}, false
}

// Deactivate is grains.Deactivate.
func Deactivate(ctx context.Context) error {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return err
	}
	a, ok := t.Attached().(*activation)
	if !ok {
		return fmt.Errorf("deactivate: %w: the context is not that of a grain's method", raysys.ErrNoRuntime)
	}
	a.post(&mail{msg: passivate{force: true}})
	return nil
}
