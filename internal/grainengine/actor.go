package grainengine

import (
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys/internal/core"
)

// kindActor is the protoactor actor of every activation of a kind. It has no state: a call knows its activation, and
// find returns the activation of a life-cycle message by its PID, so an activation needs no actor object of its own.
type kindActor struct{ kind *boundKind }

// supervised is the panic that hands an activation to its supervisor, after the call that panicked was failed.
type supervised struct{ cause any }

func (s supervised) String() string { return fmt.Sprint(s.cause) }

// supervision is protoactor's, with the kind's choice for a panic.
func supervision(choice PanicChoice) actor.SupervisorStrategy {
	return actor.NewOneForOneStrategy(10, 10e9, func(any) actor.Directive {
		if choice == RestartOnPanic {
			return actor.RestartDirective
		}
		return actor.StopDirective
	})
}

// Receive implements actor.Actor.
func (h *kindActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *call:
		a := m.queuedAt()
		if panicked := a.perform(m); panicked != nil && h.kind.def.OnPanic != KeepOnPanic {
			panic(supervised{panicked})
		}
	case pull:
		a := h.find(ctx.Self())
		if a == nil {
			return // it has left
		}
		if panicked := a.pool.work(a); panicked != nil && h.kind.def.OnPanic != KeepOnPanic {
			panic(supervised{panicked})
		}
	case *timer:
		if panicked := m.perform(); panicked != nil && h.kind.def.OnPanic != KeepOnPanic {
			panic(supervised{panicked})
		}
	case passivate:
		if a := h.find(ctx.Self()); a != nil && (m.force || m.ticks == a.used.Load()) {
			ctx.Stop(ctx.Self())
		}
	case early:
		if a := h.find(ctx.Self()); a != nil && a.holding.goesEarly(a.holding.oughtToGo) {
			ctx.Stop(ctx.Self())
		}
	case *actor.Started:
		if a := h.find(ctx.Self()); a != nil {
			a.activate()
		}
	case *actor.Restarting:
		if a := h.find(ctx.Self()); a != nil {
			a.waitInner()
			a.timers.Load().end()
			a.laters.Load().abandonCalls("a panic ended its activation")
			a.state = nil // it panicked: OnDeactivate must not run on a half-changed G
		}
	case *actor.Stopping:
		if a := h.find(ctx.Self()); a != nil {
			h.stopping(ctx, a)
		}
	}
}

// stopping ends the activation, also when OnDeactivate ends the goroutine: protoactor then does not get to the rest.
func (h *kindActor) stopping(ctx actor.Context, a *activation) {
	normal := false
	defer func() {
		if !normal {
			ctx.ActorSystem().ProcessRegistry.Remove(ctx.Self())
		}
		a.ended()
	}()
	a.deactivate()
	normal = true
}

// ended follows deactivate.
func (a *activation) ended() {
	a.timers.Load().end()
	a.laters.Load().abandonCalls("its activation has ended")
	a.holding.giveBack()
	a.leave()
}

// find returns the activation of a PID: its id is kind/key$serial.
func (h *kindActor) find(pid *actor.PID) *activation {
	key := pid.Id[len(h.kind.def.name)+1:]
	key = key[:strings.LastIndexByte(key, '$')]
	if h.kind.def.Stateless {
		if p, ok := h.kind.pools.Load(key); ok {
			return p.(*pool).find(pid.Id)
		}
		return nil
	}
	s := h.kind.stripeOf(key)
	s.RLock()
	defer s.RUnlock()
	if a := s.activations[key]; a != nil && a.id == pid.Id {
		return a
	}
	return nil
}

// leave takes the activation out of its pool, or out of the kind's table.
func (a *activation) leave() {
	if a.pool != nil {
		a.pool.leave(a)
		return
	}
	a.close()
}

var _ core.Work = (*call)(nil)
