package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

const (
	// unloadPause is how long after an answer that did not settle it a grain's place is looked up again.
	unloadPause = 20 * time.Millisecond
	// unloadLooks is how often a node may say that it does not have a grain that is placed there: its first call is on the way, or was lost.
	unloadLooks = 50
)

// Unload has a grain leave memory, and returns when its placement is gone.
func Unload(ctx context.Context, o *Operator, id graindir.ID) error {
	if o.Node.Cluster() == nil {
		_, err := grainengine.UnloadHere(ctx, o.Grains, id)
		return err
	}
	var last graindir.Place
	for looks := 0; looks < unloadLooks; looks++ {
		at, err := placeOf(ctx, o, id)
		if err != nil {
			return fmt.Errorf("unload %s/%s: %w", id.Kind, id.Key, err)
		}
		if at == (graindir.Place{}) || last != (graindir.Place{}) && at.Token != last.Token {
			return nil // what was there when this was called is gone
		}
		last = at
		was := false
		silent, err := ask(ctx, o, at.Node, "unload", id, func(_ core.NodeKey, here bool) { was = here })
		switch {
		case was:
			return nil
		case len(silent) > 0:
			looks = 0 // it dies, or a turn of the grain takes long
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("unload %s/%s: %w", id.Kind, id.Key, context.Cause(ctx))
		}
		select {
		case <-time.After(unloadPause):
		case <-ctx.Done():
			return fmt.Errorf("unload %s/%s: node %s has it still: %w", id.Kind, id.Key, at.Node, context.Cause(ctx))
		}
	}
	return nil
}

// placeOf asks where a grain is, without placing it.
func placeOf(ctx context.Context, o *Operator, id graindir.ID) (graindir.Place, error) {
	r, err := o.Node.Registry()
	if err != nil {
		return graindir.Place{}, err
	}
	type answer struct {
		at  graindir.Place
		err error
	}
	answers := make(chan answer, 1)
	r.Confirm(id, graindir.Token{}, func(p graindir.Placed, err error) { answers <- answer{p.Place, err} })
	select {
	case a := <-answers:
		return a.at, a.err
	case <-ctx.Done():
		return graindir.Place{}, context.Cause(ctx)
	}
}

// unload answers whether the grain was here. It is gone then.
func (o own) unload(ctx context.Context, id graindir.ID) (bool, error) {
	return grainengine.UnloadHere(ctx, o.Grains, id)
}
