package system

import (
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// locator implements graindir.Cluster by the registry; a call of a stateless kind goes to any worker.
type locator struct{ c *cluster }

// Locate implements graindir.Cluster.
func (l locator) Locate(id graindir.ID, want graindir.Wanted, avoid graindir.Place, done func(graindir.Placed, error)) {
	if want.Stateless {
		l.c.locateAnywhere(id, want, done)
		return
	}
	l.c.reg.Locate(id, want, avoid, done)
}

// Elsewhere implements graindir.Cluster.
func (l locator) Elsewhere(id graindir.ID, want graindir.Wanted, waits bool) graindir.Place {
	self, call := l.c.self().Node, want.Stateless
	want.Stateless, want.Avoid = false, append(want.Avoid, self)
	d, err := l.c.anywhere(id, want)
	if waits && errors.Is(err, placement.ErrNoNode) {
		l.c.askForRoom(l.c.grainRequest(id, want))
	}
	if err != nil || d.Node == self {
		return graindir.Place{}
	}
	if call { // nothing else says where it goes
		l.c.node.decisions.Placed(id, d)
	}
	return graindir.Place{NodeKey: core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}}
}

// Confirm implements graindir.Cluster.
func (l locator) Confirm(id graindir.ID, token graindir.Token, done func(graindir.Placed, error)) {
	l.c.reg.Confirm(id, token, done)
}

// Release implements graindir.Cluster.
func (l locator) Release(id graindir.ID, token graindir.Token, done func(error)) {
	began := l.c.node.wheel.Now()
	most := began + int64(grainFor)
	l.c.arrives(id, most)
	l.c.reg.Release(id, token, func(err error) {
		if now := l.c.node.wheel.Now(); err == nil {
			l.c.arrives(id, min(most, now+now-began+int64(givenBackFor)))
		}
		done(err)
	})
}

// arrives notes until when a grain that was placed here, and leaves, is on its way to where it goes, if it was seen off.
func (c *cluster) arrives(id graindir.ID, until int64) {
	c.view.arrives(id, until)
	c.node.groups.room.arrives(id, until)
}

// Peer implements graindir.Cluster.
func (l locator) Peer(k core.NodeKey) wire.Peer {
	if p := l.c.peer(k); p != nil {
		return p
	}
	return nil
}

// Connect implements graindir.Cluster.
func (l locator) Connect(k core.NodeKey, done func(wire.Peer, error)) {
	l.c.connect(k, func(p *refs.Session, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(p, nil)
	})
}

// Self implements graindir.Cluster.
func (l locator) Self() core.NodeKey { return l.c.self() }

// Suspended implements graindir.Cluster.
func (l locator) Suspended() error { return l.c.suspended() }

// anywhere chooses a node for a call that any worker can serve, or a grain that is seen off.
func (c *cluster) anywhere(id graindir.ID, want graindir.Wanted) (placement.Decision, error) {
	return c.place(seenOff, id, func(*placement.View) placement.Request { return c.grainRequest(id, want) })
}

// grainRequest is what a grain asks of placement.
func (c *cluster) grainRequest(id graindir.ID, want graindir.Wanted) placement.Request {
	return placement.Request{
		Kind: placement.Grain, Function: "grain " + id.Kind, Namespace: c.node.cfg.Namespace, Key: id.Key, Labels: want.Labels, Conditions: registry.Conditions(want.Nodes), Needs: raysys.Resources(want.Needs), Queue: want.Stateless, Strategy: want.Strategy,
		Custom: c.cfg.Strategies, Seed: c.draws.Add(1), Avoid: want.Avoid,
	}
}
