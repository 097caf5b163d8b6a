package protoactor

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// anchor is the grain that owns the actor of one identity. The registry places it and fences it; its State is the actor's.
type anchor struct {
	state grains.State[[]byte]
	kind  *bound
	key   string
	node  *node
	life  *activation
	stale bool // a save failed: Value is not what is stored
}

// address is where an actor is: the two parts of its PID.
type address struct{ Address, ID string }

// OnActivate implements grains.Activator.
func (a *anchor) OnActivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	a.kind, a.key, a.node = boundOf(strings.TrimPrefix(id.Kind, prefix)), id.Key, nodeOf(system.NodeOf(ctx))
	if err := a.node.await(ctx); err != nil {
		return err
	}
	return a.spawn()
}

func (a *anchor) spawn() error {
	life, err := spawn(a.node, a.kind, a.key, stored{a.state.Value, a.state.Exists()})
	if err == nil {
		a.life, a.stale = life, false
	}
	return err
}

// OnDeactivate implements grains.Deactivator: no other activation begins before the actor has ended.
func (a *anchor) OnDeactivate(ctx context.Context) error {
	if a.life == nil {
		return nil
	}
	a.life.leave()
	defer close(a.life.abandoned)
	return a.end(ctx)
}

// where says where the actor is. One that has stopped by itself is followed by the next.
func (a *anchor) where(ctx context.Context) (address, error) {
	if a.life.over.Load() {
		if err := a.end(ctx); err != nil {
			return address{}, err
		}
		if a.stale {
			if err := a.state.Read(ctx); err != nil {
				return address{}, err
			}
		}
		if err := a.spawn(); err != nil {
			return address{}, err
		}
	}
	return address{a.life.pid.Address, a.life.pid.Id}, nil
}

// gone is told when an actor has stopped by itself.
func (a *anchor) gone(ctx context.Context, id string) error {
	if a.life.pid.Id != id {
		return nil // the next one is there already
	}
	return grains.Deactivate(ctx)
}

// flush stores what the actor saves.
func (a *anchor) flush(ctx context.Context, id string) error {
	a.stale = false // a turn begins with what is stored
	if a.life.pid.Id != id {
		return nil
	}
	select {
	case s := <-a.life.saves:
		s.done <- a.store(ctx, s.stored)
	default: // end has stored it
	}
	return nil
}

func (a *anchor) store(ctx context.Context, s stored) (err error) {
	defer func() { a.stale = err != nil }()
	if !s.exists {
		return a.state.Clear(ctx)
	}
	a.state.Value = s.data
	return a.state.Write(ctx)
}

// patience is how long an actor may take to stop before the log says that.
const patience = 10 * time.Second

// end waits until the actor, which is stopping, has ended. Meanwhile it stores what the actor saves.
func (a *anchor) end(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-a.life.ended:
			return nil
		case s := <-a.life.saves:
			s.done <- a.store(ctx, s.stored)
		case <-late.C:
			a.node.log().Warn("an actor does not stop: its grain waits for it", slog.String("pid", a.life.pid.String()))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
