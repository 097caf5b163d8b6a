package grainengine

import (
	"slices"
	"sync"

	"github.com/raysys/raysys/internal/core"
)

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

func (a *activation) gated() *gate {
	if g := a.gate.Load(); g != nil {
		return g
	}
	g := &gate{lock: make(chan struct{}, 1)}
	if !a.gate.CompareAndSwap(nil, g) {
		return a.gate.Load()
	}
	return g
}

// open is called by the turn t before it waits.
func (a *activation) open(t *core.Turn) {
	g := a.gated()
	release := false
	g.mu.Lock()
	if p := a.passage(g, t); p != nil {
		p.waits++
		release, p.locked = p.locked, false
	}
	back := slices.Clone(g.back)
	g.mu.Unlock()
	if release {
		<-g.lock
	}
	if a.currentReadOnly() {
		a.admitReaders()
	}
	for _, b := range back {
		b.look()
	}
}

// shut is called by the turn t when its wait is over.
func (a *activation) shut(t *core.Turn) {
	g := a.gated()
	g.mu.Lock()
	p := a.passage(g, t)
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
func (a *activation) passage(g *gate, t *core.Turn) *passage {
	if c := a.current.Load(); c != nil && c.OwnTurn() == t.Base() {
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
