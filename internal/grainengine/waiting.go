package grainengine

import (
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// Waiting is a grain and where it, or its calls, wait on this node, but for the name of the node.
type Waiting struct {
	ID graindir.ID
	raysys.Waiting
	Want graindir.Wanted // what it asks of placement
}

// Active is a grain in memory.
type Active struct {
	ID      graindir.ID
	Mailbox int  // messages
	Waits   bool // for its node's resources: it has not begun
	a       *activation
	calls   int // of a stateless kind's key, for any of its activations
}

// EachActive shows the activations of a kind, or of all where that is "", in no order.
func EachActive(e *Engine, kind string, f func(Active)) {
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); kind == "" || kind == k.def.name {
			for _, a := range k.activations() {
				f(activeOf(a, 0))
			}
		}
		return true
	})
}

// FindActive lists the activations of one grain.
func FindActive(e *Engine, id graindir.ID) (list []Active) {
	e.kinds.Range(func(_, v any) bool {
		k := v.(*boundKind)
		if k.def.name != id.Kind {
			return true
		}
		if a, _ := k.lookup(id.Key); a != nil {
			list = append(list, activeOf(a, 0))
		}
		if p, ok := k.pools.Load(id.Key); ok {
			all, calls := p.(*pool).members()
			for _, a := range all {
				list = append(list, activeOf(a, calls))
			}
		}
		return true
	})
	return list
}

func activeOf(a *activation, calls int) Active {
	return Active{
		ID: graindir.ID{Kind: a.kind.def.name, Key: a.key}, Mailbox: a.waits() + calls, a: a, calls: calls,
		Waits: a.holding != nil && a.holding.hold.Load() == nil,
	}
}

// OneTurn is a turn that a grain is in.
type OneTurn struct {
	Call  *core.Future  // nil of a hook
	Turn  *core.Turn    // nil of a call that has submitted nothing
	Name  string        // of the method or hook
	Late  string        // why nothing waits for it any more; "" while something may
	Since time.Duration // how long it lasts, at least; 0 where that is not known
}

// Turns lists the turns that the grain is in: more than one where it interleaves.
func (g *Active) Turns() (list []OneTurn) {
	a := g.a
	e := a.kind.engine
	now := e.cfg.Now()
	if t := a.turnNow(now); t.of != nil {
		one := OneTurn{Name: t.name, Late: t.late}
		switch of := t.of.(type) {
		case *core.Future:
			one.Call, one.Turn = of, of.OwnTurn()
		case *core.Turn:
			one.Turn = of
		}
		e.looks.mu.Lock()
		if s := e.looks.seen[a]; s != nil && s.turn == t.of {
			one.Since = time.Duration(now - s.since)
		}
		e.looks.mu.Unlock()
		list = append(list, one)
	}
	if g := a.gate.Load(); g != nil {
		g.mu.Lock()
		for _, p := range g.inner {
			list = append(list, OneTurn{Call: p.call, Turn: p.call.OwnTurn(), Name: callOf(p.call).method.entry.Name})
		}
		g.mu.Unlock()
	}
	return list
}

// EachSent shows the calls that this node has sent to others and that they have not answered. f is called under locks: it does not call the
// engine.
func EachSent(e *Engine, f func(*core.Future, graindir.ID)) {
	e.peers.Range(func(_, v any) bool {
		v.(*peer).sent.Each(func(_ uint64, o *outboundCall) { f(&o.call.Future, graindir.ID{Kind: o.kind.def.name, Key: o.key}) })
		return true
	})
}

// CallOf says of a call of this node to which grain it is, in whose mailbox here it is, or to which node it was sent; false for other work.
func CallOf(c *core.Future) (id graindir.ID, at raysys.NodeID, ok bool) {
	if id, ok = GrainOf(c); !ok {
		return id, "", false
	}
	if call := callOf(c); call.queuedAt() == nil {
		if p, _, away := engineOf(c.Up()).Away(c); away {
			at = p.Node()
		}
	}
	return id, at, true
}

// GrainOf returns the grain that a call of this node is to; false for other work.
func GrainOf(c *core.Future) (graindir.ID, bool) {
	call := callOf(c)
	if call == nil {
		return graindir.ID{}, false
	}
	if a := call.queuedAt(); a != nil {
		return graindir.ID{Kind: a.kind.def.name, Key: a.key}, true
	}
	o := call.outbound()
	if o == nil {
		v, ok := engineOf(c.Up()).forwarded.Load(c)
		if !ok {
			return graindir.ID{}, false
		}
		o = v.(*outboundCall)
	}
	return graindir.ID{Kind: o.kind.def.name, Key: o.key}, true
}

// members lists the activations of a stateless kind's key, and how many calls wait for them.
func (p *pool) members() (list []*activation, calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.all {
		list = append(list, a)
	}
	return list, len(p.queue) - p.first
}

// count is how many calls to a grain are held.
func (h *heldCalls) count(k *boundKind, key string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, l := range h.line {
		if of.kind == k && of.key == key || of.call != nil && of.call.kind == k && of.call.key == key {
			n += len(l.queue)
		}
	}
	return n
}
