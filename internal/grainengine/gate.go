package grainengine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
)

// turns are those that an activation is in: the mailbox's, which others may interleave with while it waits, or a hook.
type turns struct {
	a       *activation                 // whose they are
	inner   atomic.Int32                // interleaved turns that have not ended
	current atomic.Pointer[core.Future] // the call whose turn it is
	hook    atomic.Pointer[core.Turn]   // of OnActivate or OnDeactivate while it runs
	gate    atomic.Pointer[gate]        // made by the first turn that waits
}

// gate keeps the turns of one activation apart once they may interleave. A turn opens it before it waits, and locks it
// again before it goes on; an interleaved turn has it locked while it runs. The lock is a channel and not a mutex, so
// that virtual time advances while a turn waits for it.
type gate struct {
	lock  chan struct{} // capacity 1: full while locked
	mu    sync.Mutex    // guards the rest
	main  *passage      // of the mailbox's turn, once it has waited
	inner []*passage    // of interleaved turns
	idle  chan struct{} // closed when the last interleaved turn ends; made by waitInner
	back  []*comeback   // queued calls that came back over other nodes
}

// passage is what a turn in progress has to do with the gate. The first of its goroutines that waits opens the gate, the last whose
// wait is over locks it again.
type passage struct {
	call   *core.Future
	waits  int           // goroutines of the turn that wait
	locked bool          // the turn has the lock
	taking chan struct{} // closed when the goroutine that takes the lock has done so; else nil
	over   bool
}

func (in *turns) makeGate() *gate {
	if g := in.gate.Load(); g != nil {
		return g
	}
	g := &gate{lock: make(chan struct{}, 1)}
	if !in.gate.CompareAndSwap(nil, g) {
		return in.gate.Load()
	}
	return g
}

// openGate is called by the turn t before it waits.
func (in *turns) openGate(t *core.Turn) {
	g := in.makeGate()
	release := false
	g.mu.Lock()
	if p := in.passage(g, t); p != nil {
		p.waits++
		release, p.locked = p.locked, false
	}
	back := slices.Clone(g.back)
	g.mu.Unlock()
	if release {
		<-g.lock
	}
	if in.currentReadOnly() {
		in.admitReaders()
	}
	for _, b := range back {
		b.look()
	}
}

// shutGate is called by the turn t when its wait is over.
func (in *turns) shutGate(t *core.Turn) {
	g := in.makeGate()
	g.mu.Lock()
	p := in.passage(g, t)
	if p == nil {
		g.mu.Unlock()
		return
	}
	p.waits--
	if p.waits > 0 || p.locked {
		g.mu.Unlock()
		return
	}
	taking := p.taking
	if taking != nil {
		g.mu.Unlock()
		<-taking
		return
	}
	p.taking = make(chan struct{})
	g.mu.Unlock()
	g.lock <- struct{}{}
	g.mu.Lock()
	close(p.taking)
	p.taking = nil
	p.locked = p.waits == 0 && !p.over // else another of its goroutines waits by now
	keep := p.locked
	g.mu.Unlock()
	if !keep {
		<-g.lock
	}
}

// passage returns that of a turn in progress, nil once it is over. With g.mu held.
func (in *turns) passage(g *gate, t *core.Turn) *passage {
	if c := in.current.Load(); c != nil && c.OwnTurn() == t.Base() {
		if g.main == nil {
			g.main = &passage{call: c}
		}
		return g.main
	}
	for _, p := range g.inner {
		if p.call.OwnTurn() == t.Base() {
			return p
		}
	}
	return nil
}

// leave ends p, nil for none, with its turn. The caller has g.mu, which leave unlocks.
func (g *gate) leave(p *passage) {
	locked := p != nil && p.locked
	if p != nil {
		p.over, p.locked = true, false
	}
	g.mu.Unlock()
	if locked {
		<-g.lock
	}
}

// endMain ends the passage of the mailbox's turn.
func (g *gate) endMain() {
	g.mu.Lock()
	p := g.main
	g.main = nil
	g.leave(p)
}
