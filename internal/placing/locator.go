package placing

import (
	"errors"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// Locator implements graindir.Cluster by the registry; a call of a stateless kind goes to any worker.
type Locator struct{ pl *Placer }

// Locate implements graindir.Cluster.
func (l Locator) Locate(id graindir.ID, want graindir.Wanted, avoid graindir.Place, done func(graindir.Placed, error)) {
	if want.Stateless {
		l.locateAnywhere(id, want, done)
		return
	}
	l.pl.Registry.Locate(id, want, avoid, done)
}

// Elsewhere implements graindir.Cluster.
func (l Locator) Elsewhere(id graindir.ID, want graindir.Wanted, waits bool) graindir.Place {
	self, call := l.pl.self().Node, want.Stateless
	want.Stateless, want.Avoid = false, append(want.Avoid, self)
	d, err := l.anywhere(id, want)
	if waits && errors.Is(err, placement.ErrNoNode) {
		l.pl.askForRoom(l.grainRequest(id, want))
	}
	at := core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}
	if err != nil || d.Node == self || startsNone(l.pl, at) {
		return graindir.Place{}
	}
	if call { // nothing else says where it goes
		l.pl.Decisions.Placed(id, d)
	}
	return graindir.Place{NodeKey: at}
}

// Confirm implements graindir.Cluster.
func (l Locator) Confirm(id graindir.ID, token graindir.Token, done func(graindir.Placed, error)) {
	l.pl.Registry.Confirm(id, token, done)
}

// Release implements graindir.Cluster.
func (l Locator) Release(id graindir.ID, token graindir.Token, to core.NodeKey, done func(graindir.Place, error)) {
	began := l.pl.Wheel.Now()
	most := began + int64(grainFor)
	l.arrives(id, most)
	l.pl.Registry.Release(id, token, to, func(p graindir.Place, err error) {
		if now := l.pl.Wheel.Now(); err == nil {
			l.arrives(id, min(most, now+now-began+int64(givenBackFor)))
		}
		done(p, err)
	})
}

// End implements graindir.Cluster. The grain goes nowhere, but for calls that wait.
func (l Locator) End(id graindir.ID, token graindir.Token, done func(error)) {
	registry.End(l.pl.Registry, id, token, done)
}

// arrives notes until when a grain that was placed here, and leaves, is on its way to where it goes, if it was seen off.
func (l Locator) arrives(id graindir.ID, until int64) {
	l.pl.view.arrives(id, until)
	l.pl.groups.room.arrives(id, until)
}

// Peer implements graindir.Cluster.
func (l Locator) Peer(k core.NodeKey) wire.Peer {
	if p := l.pl.peer(k); p != nil {
		return p
	}
	return nil
}

// Connect implements graindir.Cluster.
func (l Locator) Connect(k core.NodeKey, done func(wire.Peer, error)) {
	refs.Connect(l.pl.Mesh, k, func(p *refs.Session, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(p, nil)
	})
}

// Self implements graindir.Cluster.
func (l Locator) Self() core.NodeKey { return l.pl.self() }

// Suspended implements graindir.Cluster.
func (l Locator) Suspended() error { return l.pl.Suspended() }

// Admit implements graindir.Cluster.
func (l Locator) Admit() (waited bool, err error) { return l.pl.Admit() }

// anywhere chooses a node for a call that any worker can serve, or a grain that is seen off.
func (l Locator) anywhere(id graindir.ID, want graindir.Wanted) (placement.Decision, error) {
	return l.pl.place(seenOff, id, func(*placement.View) placement.Request { return l.grainRequest(id, want) })
}

// grainRequest is what a grain asks of placement.
func (l Locator) grainRequest(id graindir.ID, want graindir.Wanted) placement.Request {
	return placement.Request{
		Kind: placement.Grain, Function: "grain " + id.Kind, Namespace: l.pl.Namespace, Key: id.Key, Labels: want.Labels, Conditions: registry.Conditions(want.Nodes), Needs: raysys.Resources(want.Needs), Queue: want.Stateless, Strategy: want.Strategy,
		Custom: l.pl.Strategies, Seed: l.pl.draws.Add(1), Avoid: want.Avoid,
	}
}

// homelessPause is how often a stateless call that found no worker looks for one.
const homelessPause = 100 * time.Millisecond

// locateAnywhere finds a worker for a call of a stateless kind. While this node is connected to none the call waits, as
// tasks and calls of other grains do; its own deadline ends it.
func (l Locator) locateAnywhere(id graindir.ID, want graindir.Wanted, done func(graindir.Placed, error)) {
	l.lookAnywhere(id, want, false, done)
}

// lookAnywhere is one look; waits says that the call is among the homeless already.
func (l Locator) lookAnywhere(id graindir.ID, want graindir.Wanted, waits bool, done func(graindir.Placed, error)) {
	d, err := l.anywhere(id, want)
	var none *placement.NoNodeError
	if err == nil || !errors.As(err, &none) || l.pl.reachesWorker() {
		if waits {
			l.pl.Homeless.Add(-1)
		}
		if err == nil {
			l.pl.Decisions.Placed(id, d)
		}
		done(graindir.Placed{Place: graindir.Place{NodeKey: core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}}}, err)
		return
	}
	if !waits {
		l.pl.Homeless.Add(1)
	}
	l.pl.Wheel.Set(&core.Alarm{At: l.pl.Runner.Now() + int64(homelessPause), Ring: func() {
		if l.pl.Runner.Context().Err() != nil {
			l.pl.Homeless.Add(-1)
			done(graindir.Placed{}, raysys.ErrClosed)
			return
		}
		l.lookAnywhere(id, want, true, done)
	}})
}
