package grainengine

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// Calls of a stateless kind whose workers hold something go to where there is room for a worker, as far as is known, when they are made
// and while they wait.
//
//	call ──► seek: a node with room ──► Receive ──► pool ──► a worker
//	          ▲                                       │ MoveCalls: while it waits, again and again
//	          └──── moved: to there ◄─────────────────┴─► another node has room, and this one none
//
// A call that a node has refused maxRefused times waits at the next for good. It does not run at a node that refuses it.

// seeks reports whether calls of the kind go to where there is room for a worker.
func (k *boundKind) seeks() bool { return k.def.Stateless && k.def.holds() }

// wanted is what the kind asks of a node.
func (d *kind) wanted() graindir.Wanted {
	return graindir.Wanted{Entry: d.entry, Strategy: d.Strategy, Labels: d.Labels, Needs: d.Needs, Stateless: d.Stateless}
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

// workersElsewhere reports whether a call of a stateless kind that is here had better go to another node, and to which, if one is known to
// have room: here no worker is free, and none can be had. waits says that it waits here, and idle grains elsewhere are to make room.
func (k *boundKind) workersElsewhere(key string, waits bool) (to graindir.Place, leaves bool) {
	switch line := k.engine.cfg.Line; {
	case k.unfit != nil:
		return graindir.Place{}, true
	case !k.def.holds():
		return graindir.Place{}, false
	case !line.Could(k.def.Need):
		return graindir.Place{}, true
	case k.hasWorker(key):
		return graindir.Place{}, false
	}
	to = k.engine.cfg.Cluster.Elsewhere(graindir.ID{Kind: k.def.name, Key: key}, k.def.wanted(), waits)
	return to, !to.IsZero()
}

// hasWorker reports whether a worker of the key is idle, or another can have what the kind holds.
func (k *boundKind) hasWorker(key string) bool {
	n := 0
	if v, ok := k.pools.Load(key); ok {
		p := v.(*pool)
		p.mu.Lock()
		idle := len(p.idle)
		n = len(p.all)
		p.mu.Unlock()
		if idle > 0 {
			return true
		}
	}
	return n < k.workers && k.engine.cfg.Line.HasNow(k.def.Need)
}

// told is called when a worker is sent a pull. The caller has locked the pool.
func (a *activation) told() {
	if a.holding != nil {
		a.holding.pulls = true
	}
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

// CallsWait reports whether MoveCalls has something to look at.
func (e *Engine) CallsWait() bool { return e.pooled.Load() > 0 }

// MoveCalls has calls that wait here for workers that hold resources go to nodes that have room for those now, the oldest of each key
// first. On a node without others those fail whose devices are sick. It is called when what is known of the nodes has changed, and at each tick. Their workers keep their place in the line while
// calls are left for them.
func (e *Engine) MoveCalls() {
	if !e.CallsWait() || e.closed.Load() {
		return
	}
	e.moving.Lock() // a call that one goroutine has looked at, and not yet taken out, would be seen off twice
	defer e.moving.Unlock()
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.seeks() {
			k.pools.Range(func(_, p any) bool {
				if e.cfg.Cluster != nil {
					p.(*pool).move()
				} else {
					p.(*pool).endSick()
				}
				return true
			})
		}
		return true
	})
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
