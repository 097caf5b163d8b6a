package grainengine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// pool is one key of a stateless worker kind: one queue, and up to n activations that pull from it. A call is bound
// to no worker beforehand, so a short one does not wait behind a long one while a worker is free.
type pool struct {
	kind  *boundKind
	key   string
	mu    sync.Mutex // guards the rest
	queue []*call
	first int // of queue; the slots before it are nil
	idle  []*activation
	all   map[string]*activation // by PID id
	gone  bool                   // taken out of boundKind.pools: the key has another pool, or none
}

// pull is the message to a worker that there may be calls.
type pull struct{}

// errGone asks the caller to look for the key's pool again.
var errGone = errors.New("the pool is gone")

func (p *pool) deliver(c *call) error {
	e := p.kind.engine
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return errGone
	}
	if e.closed.Load() {
		p.mu.Unlock()
		return raysys.ErrClosed
	}
	if n := len(p.queue) - p.first; n >= p.kind.def.Mailbox {
		p.mu.Unlock()
		return fmt.Errorf("%w: %d calls wait for the workers: call less often, wait for results, or raise grains.Mailbox",
			raysys.ErrOverloaded, n)
	}
	p.queue = append(p.queue, c)
	p.countLocked(+1)
	var a *activation
	fresh, first := false, false
	switch n := len(p.idle); {
	case n > 0:
		a, p.idle = p.idle[n-1], p.idle[:n-1]
		a.countPull()
	case len(p.all) < p.kind.workers:
		a, fresh = p.growLocked(), true
		first = p.kind.live.Add(1) == 1
	}
	if p.kind.workers == 1 { // then the call waits for the turn of that one
		for _, only := range p.all {
			c.queueAt(only)
		}
	}
	p.mu.Unlock()
	if a == nil {
		return nil
	}
	a.post(&mail{msg: pull{}})
	if first {
		p.kind.arm()
	}
	if fresh {
		a.spawn()
	}
	return nil
}

func (p *pool) growLocked() *activation {
	a := newActivation(p.kind, p.key, core.Bundle{})
	a.pool = p
	p.all[a.id] = a
	a.countPull()
	return a
}

// next takes the oldest call, or marks the worker idle.
func (p *pool) next(a *activation) *call {
	p.mu.Lock()
	if a.holding != nil {
		a.holding.pulls = false
	}
	var c *call
	if p.first < len(p.queue) {
		c = p.takeLocked(p.first)
	} else {
		p.queue, p.first = p.queue[:0], 0
		if cap(p.queue) > 1024 {
			p.queue = nil
		}
		p.idle = append(p.idle, a)
	}
	over := p.overLocked()
	p.mu.Unlock()
	if over {
		p.kind.engine.dropWaiting()
	}
	return c
}

// takeLocked takes the call at i out of the queue.
func (p *pool) takeLocked(i int) *call {
	c := p.queue[i]
	copy(p.queue[p.first+1:i+1], p.queue[p.first:i])
	p.queue[p.first] = nil
	p.first++
	if p.first > 1024 && p.first*2 > len(p.queue) {
		p.queue = slices.Delete(p.queue, 0, p.first)
		p.first = 0
	}
	p.countLocked(-1)
	return c
}

// work runs calls on a until there are none. A worker that leaves after a panic passes its pull on.
func (p *pool) work(a *activation) (panicked any) {
	if a.holding != nil && a.holding.hold.Load() == nil && !p.kind.engine.closed.Load() {
		return nil // it was not needed in the end, and goes
	}
	normal := false
	defer func() {
		if !normal {
			a.post(&mail{msg: pull{}}) // the method ended the goroutine (runtime.Goexit); the worker goes on in another
		}
	}()
	for c := p.next(a); c != nil; c = p.next(a) {
		c.queueAt(a)
		if panicked = a.perform(c); panicked != nil && p.kind.def.OnPanic != KeepOnPanic {
			break // the deferred pull is for its successor after a restart; leave passes it on after a stop
		}
		if a.UserMessageCount() > 0 { // a tick of a timer, say, which does not wait until no call does
			p.pullBehind(a)
			break
		}
	}
	normal = panicked == nil || p.kind.def.OnPanic == KeepOnPanic
	return panicked
}

// pullBehind has the worker pull behind what is in its mailbox.
func (p *pool) pullBehind(a *activation) {
	p.mu.Lock()
	a.countPull()
	p.mu.Unlock()
	a.post(&mail{msg: pull{}})
}

func (p *pool) find(id string) *activation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id]
}

// leave takes a stopped worker out, and replaces it when calls wait.
func (p *pool) leave(a *activation) {
	k := p.kind
	var dropped []*call
	var next *activation
	p.mu.Lock()
	delete(p.all, a.id)
	if i := slices.Index(p.idle, a); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	// Close sets closed and then looks at every pool, so it finds what is entered here.
	switch {
	case k.engine.closed.Load():
		if len(p.all) == 0 {
			dropped, p.queue, p.first = p.queue[p.first:], nil, 0
			p.countLocked(-len(dropped))
		}
	case p.waitingLocked() > 0:
		next = p.growLocked()
		k.live.Add(1)
	case len(p.all) == 0:
		p.gone = true
		k.pools.CompareAndDelete(p.key, p)
	}
	p.mu.Unlock()
	defer k.activationGone()
	for _, c := range dropped {
		c.Future.Cancel(raysys.ErrClosed)
	}
	if next != nil {
		next.post(&mail{msg: pull{}})
		next.spawn()
	}
}

// Calls of a stateless kind whose workers hold something go to where there is room for a worker, as far as is known, when they are made
// and while they wait.
//
//	call ──► seek: a node with room ──► Receive ──► pool ──► a worker
//	          ▲                                       │ MoveCalls: while it waits, again and again
//	          └──── moved: to there ◄─────────────────┴─► another node has room, and this one none
//
// A call that a node has refused maxRefused times waits at the next for good. It does not run at a node that refuses it.

// wanted is what the kind asks of a node.
func (d *kind) wanted() graindir.Wanted {
	return graindir.Wanted{
		Entry: d.entry, Strategy: d.Strategy, Labels: d.Labels, Needs: d.Needs,
		Stateless: d.Stateless, Always: d.Always,
	}
}

// roomLocked takes the place that the first call is to go to since it is known to have room for a worker; zero for none.
func (r *route) roomLocked() (p graindir.Place) {
	for _, q := range r.queue {
		if o, ok := q.(*outboundCall); ok {
			if o.to != nil {
				p.NodeKey, o.to = *o.to, nil
			}
			break
		}
	}
	return p
}

// seeksEach reports whether each call of the route seeks its own node. Where the strategy chooses one for the key, that is the node.
func (r *route) seeksEach() bool { return r.kind.seeks() && !r.rotation.one }

// seek returns the node for the next call to a stateless kind whose workers hold resources: the node in turn or, where that has no room,
// another that has. It returns zero where none has room, and the registry is to be asked for one more for the calls to wait at.
func (r *route) seek(want graindir.Wanted, avoid graindir.Place) graindir.Place {
	r.mu.Lock()
	turn, known := r.rotation.nextNode()
	r.mu.Unlock()
	look := want
	if known {
		look.Avoid, look.Nodes = nil, []core.NodeCondition{{Nodes: []core.NodeID{turn.place.Node}, Soft: true}}
	}
	p := r.kind.engine.cfg.Cluster.Elsewhere(r.id(), look, false)
	if p.NodeKey == avoid.NodeKey { // it could not be reached
		p = graindir.Place{}
	}
	if p.IsZero() && known {
		p = turn.place
	}
	r.mu.Lock()
	r.rotation.found = !p.IsZero()
	r.mu.Unlock()
	return p
}

// waiting is how many calls wait for which no worker is on its way; below zero where more workers are.
func (p *pool) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waitingLocked()
}

func (p *pool) waitingLocked() int {
	n := len(p.queue) - p.first
	if p.kind.def.holds() {
		for _, a := range p.all {
			if a.holding.pulls && a.holding.hold.Load() != nil {
				n--
			}
		}
	}
	return n
}

// overLocked reports whether workers wait for what they are to hold, and no calls for them.
func (p *pool) overLocked() bool {
	if !p.kind.def.holds() || p.waitingLocked() > 0 {
		return false
	}
	for _, a := range p.all {
		if a.holding.hold.Load() == nil {
			return true
		}
	}
	return false
}

// countLocked counts calls that come and go in Engine.pooled.
func (p *pool) countLocked(n int) {
	if p.kind.def.holds() {
		p.kind.engine.pooled.Add(int64(n))
	}
}

func (p *pool) move() {
	moved := false
	for p.leaver(false) != nil {
		to, leaves := p.kind.workersElsewhere(p.key, true)
		if !leaves {
			break
		}
		c := p.leaver(true)
		if c == nil { // a worker has taken it meanwhile
			break
		}
		moved = true
		if v := c.inbound(); v != nil {
			v.refuse(to)
			continue
		}
		c.queueAt(nil)
		p.kind.outboundOf(p.key, c).sendTo(to)
	}
	if moved {
		p.kind.engine.dropWaiting()
	}
}

// leaver returns the oldest call that may leave, of those for which no worker is on its way, and takes it out if take is set; nil for none.
func (p *pool) leaver(take bool) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.queue) - max(p.waitingLocked(), 0); i < len(p.queue); i++ {
		c := p.queue[i]
		if v := c.inbound(); c.Future.Settled() || v != nil && !v.seeks || p.kind.engine.cfg.Cluster == nil && p.kind.waitsFor(c) {
			continue
		}
		if take {
			return p.takeLocked(i)
		}
		return c
	}
	return nil
}

// rotation is the nodes that take turns with the calls of this node to one key of a stateless kind, where this node
// runs no workers of its own. After each call the route asks for a node that is not in it yet, until there is none. Where workers hold
// resources, a node that has room goes before one in turn that has none.
type rotation struct {
	nodes []rotationNode
	full  bool // the registry knows no node more
	found bool // the next node that add gets has room, and is the node for the next call
	one   bool // the strategy chooses one node for the key, and the calls do not go to others
	next  int  // the index of the node for the next call
	calls int  // since full was set
}

type rotationNode struct {
	place graindir.Place
	peer  *peer
}

// spreads reports whether calls of one key may go to several nodes under the strategy; others choose one for the key.
func spreads(s raysys.Strategy) bool { return s == "" || s == raysys.Balanced || s == raysys.Spread }

// avoid lists the nodes that the registry is not to name again: those in the rotation, and the one that was found wrong
// last.
func (g *rotation) avoid(wrong graindir.Place) (ids []raysys.NodeID) {
	for _, s := range g.nodes {
		ids = append(ids, s.place.Node)
	}
	if wrong.Node != "" && !slices.Contains(ids, wrong.Node) {
		ids = append(ids, wrong.Node)
	}
	return ids
}

// add enters a node that the registry named, and returns the node for the next call: the new one, if it is new.
func (g *rotation) add(at graindir.Place, p *peer) rotationNode {
	s := rotationNode{at, p}
	known := slices.ContainsFunc(g.nodes, func(s rotationNode) bool { return s.peer == p })
	switch {
	case g.found && (known || g.one):
		g.full = g.full || known
		return s
	case known:
		g.full = true
		return g.take()
	}
	if g.full = g.one; g.one {
		g.nodes = nil
	}
	g.nodes = append(g.nodes, s)
	return s
}

// drop removes a node that is gone, or takes no calls.
func (g *rotation) drop(node raysys.NodeID, incarnation uint64) {
	g.nodes = slices.DeleteFunc(g.nodes, func(s rotationNode) bool {
		return s.place.Node == node && s.place.Incarnation == incarnation
	})
}

// nextNode returns the node for the next call; false when the registry is to be asked for one more first.
func (g *rotation) nextNode() (rotationNode, bool) {
	if g.calls++; g.calls >= statelessCalls {
		g.calls, g.full = 0, false
	}
	if !g.full || len(g.nodes) == 0 {
		return rotationNode{}, false
	}
	return g.take(), true
}

func (g *rotation) take() rotationNode {
	s := g.nodes[g.next%len(g.nodes)]
	g.next++
	return s
}

// On a node of a cluster a grain that waits for devices which are sick is placed again, and its calls fail, or wait, where no node has it
// (awaitNode, withoutBundle). On a node without others its calls fail, but for those that wait for resources: for these another activation
// waits until the devices are well.
//
//	deliverHere ──► spawn ──► ledger.Line ──► Grant
//	     └─► sought ──► Line.Move ──► Evict ──► close: calls fail ──► a successor for those that wait

// endSick fails the calls that wait for workers whose devices are sick, and do not wait for resources.
func (p *pool) endSick() {
	line := p.kind.engine.cfg.Line
	ended := false
	for {
		sick := line.Unwell(p.kind.def.Need)
		if sick == nil {
			break
		}
		c := p.leaver(true)
		if c == nil {
			break
		}
		ended = true
		c.Future.Fail(fmt.Errorf("%s: %w: %w", p.kind.def.name, raysys.ErrNoCapacity, sick))
	}
	if ended {
		p.kind.engine.dropWaiting()
	}
}
