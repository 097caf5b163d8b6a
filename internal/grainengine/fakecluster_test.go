package grainengine_test

import (
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wire"
)

// core.Runtime.

func (n *fakeNode) Now() int64                    { return n.wheel.Now() }
func (n *fakeNode) SetAlarm(a *core.Alarm)        { n.wheel.Set(a) }
func (n *fakeNode) ClearAlarm(a *core.Alarm) bool { return n.wheel.Clear(a) }
func (n *fakeNode) Grains() *grainengine.Engine   { return n.engine }
func (n *fakeNode) Block(t *core.Turn)            { n.engine.Block(t) }
func (n *fakeNode) Unblock(t *core.Turn)          { n.engine.Unblock(t) }

// graindir.Cluster.

func (n *fakeNode) Self() core.NodeKey { return core.NodeKey{Node: n.name, Incarnation: n.incarnation} }

func (n *fakeNode) Suspended() error {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return n.lease
}

func (n *fakeNode) Admit() (waited bool, err error) { return false, n.Suspended() }

// answer calls f now, or when the test lets it.
func (net *fakeNet) answer(op string, f func()) {
	net.mu.Lock()
	slow := net.slow
	net.mu.Unlock()
	var gate <-chan struct{}
	if slow != nil {
		gate = slow(op)
	}
	if gate == nil {
		f()
		return
	}
	net.mu.Lock()
	net.waiting++
	net.mu.Unlock()
	net.calls.Add(1)
	go func() {
		defer net.calls.Done()
		<-gate
		net.mu.Lock()
		net.waiting--
		net.mu.Unlock()
		f()
	}()
}

// pending is how many answers the test holds.
func (net *fakeNet) pending() int {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.waiting
}

func (net *fakeNet) begin(op string, n *fakeNode, id graindir.ID) error {
	net.mu.Lock()
	net.counts[op]++
	fault, lease := net.fault, n.lease
	net.mu.Unlock()
	if lease != nil {
		return lease
	}
	if fault != nil {
		return fault(op, n, id)
	}
	return nil
}

func (net *fakeNet) count(op string) int {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.counts[op]
}

func (net *fakeNet) nodeOf(p graindir.Place) *fakeNode {
	for _, n := range net.nodes {
		if n.name == p.Node && n.incarnation == p.Incarnation {
			return n
		}
	}
	return nil
}

func (n *fakeNode) Elsewhere(graindir.ID, graindir.Wanted, bool) graindir.Place {
	return graindir.Place{}
}

func (n *fakeNode) Locate(id graindir.ID, want graindir.Wanted, avoid graindir.Place, done func(graindir.Placed, error)) {
	net := n.net
	net.answer("locate", func() {
		if err := net.begin("locate", n, id); err != nil && !want.Stateless {
			done(graindir.Placed{}, err)
			return
		}
		net.mu.Lock()
		net.avoids = append(net.avoids, avoid)
		net.mu.Unlock()
		p, err := net.place(n, id, want)
		done(graindir.Placed{Place: p}, err)
	})
}

func (net *fakeNet) place(asks *fakeNode, id graindir.ID, want graindir.Wanted) (graindir.Place, error) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.wants = append(net.wants, want)
	if p, ok := net.places[id]; ok && !want.Stateless {
		if at := net.nodeOf(p); at != nil && !at.dead {
			return p, nil
		}
	}
	var alive []*fakeNode
	for _, n := range net.nodes {
		if !n.dead && !n.draining && !n.driver {
			alive = append(alive, n)
		}
	}
	if want.Stateless {
		if others := slices.DeleteFunc(slices.Clone(alive), func(n *fakeNode) bool { return slices.Contains(want.Avoid, n.name) }); len(others) > 0 {
			alive = others
		}
	}
	if len(alive) == 0 {
		return graindir.Place{}, fmt.Errorf("%w: no node is left", raysys.ErrNoCapacity)
	}
	var at *fakeNode
	if net.choose != nil {
		at = net.choose(id, asks, alive)
	}
	if at == nil {
		at = alive[net.turn%len(alive)]
		net.turn++
	}
	p := graindir.Place{NodeKey: core.NodeKey{Node: at.name, Incarnation: at.incarnation}}
	if !want.Stateless {
		net.seq++
		p.Token = graindir.Token{Epoch: 1, Seq: net.seq}
		net.places[id] = p
	}
	return p, nil
}

func (n *fakeNode) Confirm(id graindir.ID, token graindir.Token, done func(graindir.Placed, error)) {
	net := n.net
	net.answer("confirm", func() {
		if err := net.begin("confirm", n, id); err != nil {
			done(graindir.Placed{}, err)
			return
		}
		done(graindir.Placed{Place: net.placeOf(id)}, nil)
	})
}

func (net *fakeNet) placeOf(id graindir.ID) graindir.Place {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.places[id]
}

func (n *fakeNode) Release(id graindir.ID, token graindir.Token, to core.NodeKey, done func(graindir.Place, error)) {
	net := n.net
	net.answer("release", func() {
		if err := net.begin("release", n, id); err != nil {
			done(graindir.Place{}, err)
			return
		}
		var moved graindir.Place
		net.mu.Lock()
		if net.places[id].Token == token {
			delete(net.places, id)
			if to.Node != "" {
				net.seq++
				moved = graindir.Place{NodeKey: to, Token: graindir.Token{Epoch: 1, Seq: net.seq}}
				net.places[id] = moved
			}
		}
		net.mu.Unlock()
		done(moved, nil)
	})
}

func (n *fakeNode) End(id graindir.ID, token graindir.Token, done func(error)) {
	n.Release(id, token, core.NodeKey{}, func(_ graindir.Place, err error) { done(err) })
}

func (n *fakeNode) Peer(k core.NodeKey) wire.Peer {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	if p := n.peers[peerKey(k.Node, k.Incarnation)]; p != nil {
		return p
	}
	return nil
}

func peerKey(node raysys.NodeID, incarnation uint64) string {
	return fmt.Sprint(node, "/", incarnation)
}

func (n *fakeNode) Connect(k core.NodeKey, done func(wire.Peer, error)) {
	net := n.net
	net.answer("connect", func() {
		if err := net.begin("connect", n, graindir.ID{}); err != nil {
			done(nil, err)
			return
		}
		if p := n.Peer(k); p != nil {
			done(p, nil)
			return
		}
		net.mu.Lock()
		to := net.nodeOf(graindir.Place{NodeKey: k})
		if to == nil || to.dead || n.dead {
			net.mu.Unlock()
			done(nil, fmt.Errorf("dial %s: %w", k.Node, raysys.ErrNodeDead))
			return
		}
		p := net.linkLocked(n, to)
		net.mu.Unlock()
		p.link.start()
		done(p, nil)
	})
}
