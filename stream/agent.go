package stream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// agent is the grain that delivers one part of a subscription. The registry places it, so each part is delivered by one node at a time, and
// by another one when that is gone.
type agent struct {
	at   grains.State[position]
	pump *pump
}

// position is how far an agent is.
type position struct {
	Made  int64  // the stream, as bus.Info has it
	Floor uint64 // all events up to it were taken

	// The last event that was read. A store that does not have it is an older one.
	Last uint64
	Time int64 // when that was stored, in nanoseconds of Unix time
	// Generation counts how often the server came back with an older store. The present one has the events after Since; those up to it are those
	// of the one before. It began at Began, in seconds of Unix time.
	Generation int
	Since      uint64
	Began      int64
}

var (
	agents = grains.Define[agent]("stream.agent", grains.Keep(), grains.Movable(), grains.Unfiltered())
	wake   = grains.Action0(agents, "wake", (*agent).Wake).Idempotent()
	save   = grains.Action(agents, "save", (*agent).Save)
	again  grains.Act[agent, saved]
)

func init() { again = grains.Action(agents, "again", (*agent).Again) } // its pump calls it

// agentKey names the agent of a part.
func agentKey(s *subscription, partition int) string { return s.name + "/" + strconv.Itoa(partition) }

// OnActivate implements grains.Activator.
func (a *agent) OnActivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	cut := strings.LastIndexByte(id.Key, '/')
	name, part := id.Key[:max(cut, 0)], id.Key[cut+1:]
	partition, err := strconv.Atoi(part)
	all.mu.Lock()
	s := all.m[name]
	all.mu.Unlock()
	if s == nil || err != nil || partition >= s.d.partitions {
		return fmt.Errorf("agent %q: this program has no such subscription", id.Key)
	}
	n, err := nodeOf(ctx)
	if err != nil {
		return err
	}
	a.pump = newPump(n, s, partition, a.at.Value)
	return nil
}

// OnDeactivate implements grains.Deactivator: nothing is delivered from here when it has returned.
func (a *agent) OnDeactivate(ctx context.Context) error {
	if a.pump == nil {
		return nil
	}
	return a.store(ctx, a.pump.stop())
}

// Wake activates the agent.
func (a *agent) Wake(context.Context) error { return nil }

// Again goes on from another position, with a stream that was made again, or that lacks events.
func (a *agent) Again(ctx context.Context, s saved) error {
	p := a.pump
	if p.id != s.Pump {
		return nil
	}
	if err := a.store(ctx, s.At); err != nil {
		return err // the pump will ask again
	}
	had := p.stop()
	if s.At.Made == 0 {
		p.log().Error("the stream is not the one that was there before, and its events are gone: delivery begins anew")
	} else {
		p.log().Warn("another store: NATS came back without events that were taken. Delivery goes on with the first event that was stored after those",
			"had", had.Last, "from", s.At.Since+1)
	}
	a.pump = newPump(p.n, p.s, p.partition, s.At)
	return nil
}

// saved is a position, by the pump with that number.
type saved struct {
	Pump uint64
	At   position
}

// Save stores how far the agent is.
func (a *agent) Save(ctx context.Context, s saved) error {
	if s.Pump != a.pump.id {
		return nil // of an activation before this one
	}
	return a.store(ctx, s.At)
}

func (a *agent) store(ctx context.Context, at position) error {
	if at == a.at.Value {
		return nil
	}
	a.at.Value = at
	return a.at.Write(ctx)
}

// wakeAgain is how long it takes at most until the agents are looked after again.
const wakeAgain = time.Minute

// wake keeps all agents active: whenever the members change, and each minute. Every node does so, since any of them may be the last.
func (n *node) wake() {
	said := ""
	for {
		_, changed := n.of.Members()
		var calls []raysys.Ref[struct{}]
		for _, s := range subscriptions() {
			for p := range s.d.partitions {
				calls = append(calls, raysys.Ref[struct{}](wake.Call(n.ctx, agents.Get(agentKey(s, p)))))
			}
		}
		failed := ""
		for _, o := range raysys.GetAll(n.ctx, calls) {
			if o.Err != nil {
				failed = o.Err.Error()
			}
		}
		if n.ctx.Err() != nil {
			return
		}
		if failed != "" && failed != said {
			n.log().Warn("an agent that delivers events is not active: it is tried again", "error", failed)
		}
		said = failed
		t := time.NewTimer(wakeAgain)
		select {
		case <-changed:
		case <-t.C:
		case <-n.ctx.Done():
		}
		t.Stop()
	}
}
