package grainengine

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// ID is grains.ID: it names a grain within its namespace.
type ID struct{ Kind, Key string }

// String is kind/key.
func (id ID) String() string { return id.Kind + "/" + id.Key }

// Self is grains.Self.
func Self(ctx context.Context) (ID, bool) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return ID{}, false
	}
	if a, ok := t.Attached().(*activation); ok && t.Kind() == core.TurnGrain {
		return ID{a.kind.def.name, a.key}, true
	}
	return ID{}, false
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
