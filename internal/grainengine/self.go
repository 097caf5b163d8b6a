package grainengine

import (
	"context"
	"fmt"
	"sync"

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

// Unloader is a Runtime that has a grain leave memory, on whatever node it is.
type Unloader interface {
	Unload(ctx context.Context, id graindir.ID) error
}

// Unload is grains.Unload.
func Unload(ctx context.Context, id graindir.ID) error {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return err
	}
	entry := t.Job().Table.Lookup("grain", id.Kind)
	switch self, _ := Self(ctx); {
	case entry == nil:
		return fmt.Errorf("unload %s/%s: %w: this program defines no such kind", id.Kind, shown(id.Key), raysys.ErrUnknownFunc)
	case entry.Impl.(*kind).Stateless:
		return fmt.Errorf("unload %s/%s: %w: a StatelessWorker has a pool on each node, and no place that it leaves", id.Kind, shown(id.Key), raysys.ErrBadOption)
	case self == id:
		return fmt.Errorf("unload %s/%s: %w: its own turn waits for this; call grains.Deactivate", id.Kind, shown(id.Key), raysys.ErrBadOption)
	}
	t.Job().Runtime.Block(t.Base())
	defer t.Job().Runtime.Unblock(t.Base())
	return t.Job().Runtime.(Unloader).Unload(ctx, id)
}

// parting is the end of an activation that somebody waits for.
type parting struct {
	once sync.Once
	over chan struct{} // closed when its placement is gone, too
}

// end is called for a nil parting, too.
func (p *parting) end() {
	if p != nil {
		p.once.Do(func() { close(p.over) })
	}
}

// UnloadHere has a grain leave this node, as Deactivate does, with its placement: calls that wait find it anew. It returns when that is done,
// and false where the grain is not here.
func UnloadHere(ctx context.Context, e *Engine, id graindir.ID) (was bool, err error) {
	var p *parting
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.name == id.Kind && !k.def.Stateless {
			p = part(k, id.Key)
		}
		return p == nil
	})
	if p == nil {
		return false, nil
	}
	select {
	case <-p.over:
		return true, nil
	case <-ctx.Done():
		return true, fmt.Errorf("unload %s/%s: its turns have not ended: %w", id.Kind, shown(id.Key), context.Cause(ctx))
	}
}

// part asks an activation to leave; nil where there is none, nor one on its way out.
func part(k *boundKind, key string) *parting {
	s := k.stripeOf(key)
	s.Lock() // close looks for a parting with it
	defer s.Unlock()
	a := s.activations[key]
	if a == nil {
		if r := s.routes[key]; r != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.parting
		}
		return nil
	}
	if a.parting.CompareAndSwap(nil, &parting{over: make(chan struct{})}) {
		a.post(&mail{msg: passivate{force: true}})
	}
	return a.parting.Load()
}
