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
	waits int           // goroutines of the mailbox's turn that wait
	main  bool          // the mailbox's turn has the lock, or is taking it
	idle  chan struct{} // closed when the last interleaved turn ends; made by waitInner
	inner []*core.Future
	back  []*comeback // queued calls that came back over other nodes
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
	c := a.current.Load()
	g.mu.Lock()
	release := g.isInner(t)
	if c != nil && c.OwnTurn() == t.Base() {
		g.waits++
		release, g.main = g.main, false
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
	c := a.current.Load()
	g.mu.Lock()
	take := g.isInner(t)
	if c != nil && c.OwnTurn() == t.Base() {
		g.waits--
		if g.waits == 0 && !g.main {
			take, g.main = true, true
		}
	}
	g.mu.Unlock()
	if take {
		g.lock <- struct{}{}
	}
}

func (g *gate) isInner(t *core.Turn) bool {
	for _, c := range g.inner {
		if c.OwnTurn() == t.Base() {
			return true
		}
	}
	return false
}

func (g *gate) endMain() {
	g.mu.Lock()
	locked := g.main
	g.main, g.waits = false, 0
	g.mu.Unlock()
	if locked {
		<-g.lock
	}
}
