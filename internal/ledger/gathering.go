package ledger

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
)

// Gathering gathers room of a node for several needs: for each of them work waits in the line, as any does, and what it is granted
// stays with it until the rest is there. Then bundles are made of it.
type Gathering struct {
	line  *Line
	name  string
	parts []*gatherer
	held  func()
	over  atomic.Bool

	mu    sync.Mutex // guards lacks and the holds of the parts
	lacks int        // parts that have nothing yet
}

// gatherer is Work that waits for one need of a Gathering.
type gatherer struct {
	*Gathering
	need Need
	hold *Hold // nil while it waits, and after the end
}

func gathers(w Work) bool {
	_, ok := w.(*gatherer)
	return ok
}

// Start has it wait. Start and End may come in any order.
func (g *Gathering) Start() {
	for _, w := range g.parts {
		g.line.Push(w.need, w)
	}
}

// Class implements Work. A group gathers once it has waited for core.AgeStep, by which work rises by a class.
func (*gatherer) Class() core.Class { return core.Normal.Risen(core.AgeStep) }

// Job implements Work: a group is of no job, and what is gathered is no use of the node.
func (*gatherer) Job() *core.Job { return nil }

// Over implements Work.
func (w *gatherer) Over() bool { return w.over.Load() }

// Begins implements Work.
func (*gatherer) Begins(*Need) bool { return true }

// Yields implements Yielder.
func (*gatherer) Yields() bool { return false }

// Idle implements Yielder: when it gives back what it has is not known.
func (*gatherer) Idle() bool { return false }

// String says in explanations what goes before other work.
func (w *gatherer) String() string { return w.name }

// Grant implements Work.
func (w *gatherer) Grant(h *Hold) {
	w.mu.Lock()
	late := w.over.Load()
	if h != nil && !late {
		w.hold = h
		w.lacks--
	}
	all := h != nil && !late && w.lacks == 0
	w.mu.Unlock()
	switch {
	case all:
		w.held()
	case h != nil && late:
		w.line.Return(h)
	}
}

// Whole reports whether all of it is granted, and none of its devices is sick.
func (g *Gathering) Whole() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.over.Load() && g.lacks == 0 && !slices.ContainsFunc(g.parts, func(w *gatherer) bool { return g.line.Sick(w.hold) })
}

// take ends it, and returns what it had.
func (g *Gathering) take() (holds []*Hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over.Store(true)
	for _, w := range g.parts {
		if w.hold != nil {
			holds = append(holds, w.hold)
			w.hold = nil
		}
	}
	return holds
}

// End gives back what it has, and it waits no more. After the end it does nothing.
func (g *Gathering) End() {
	for _, h := range g.take() {
		g.line.Return(h)
	}
	g.line.Serve() // what it lacked was kept from others
}

// Carve ends it and makes the bundles of what it has, of which it must be Whole: parts are named, and ask for the same as it does. Nothing of
// it is free in between.
func (g *Gathering) Carve(parts []Part) (list []*Bundle) {
	holds, l := g.take(), g.line
	l.mu.Lock()
	l.dealAgain(parts, holds)
	for i, h := range holds {
		delete(l.running, h)
		list = append(list, l.bundle(Part{parts[i].Name, h.need}, *h))
		l.held.Add(-h.need.CPU) // it is counted for the bundle
	}
	l.mu.Unlock()
	if l.hooks.Changed != nil {
		l.hooks.Changed()
	}
	return list
}
