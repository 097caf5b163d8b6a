package taskengine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/raysys/raysys/internal/core"
)

// lineage bounds what the recipes of a node take: beyond the budget the oldest are cut. It keeps none of them alive. A
// recipe that the collector finds gives back what it counted for.
type lineage struct {
	max  int64
	used atomic.Int64
	live atomic.Int64 // recipes that have not been collected

	mu    sync.Mutex             // guards order
	order []weak.Pointer[recipe] // the oldest first, with some that are gone
}

// weight is what one recipe counts for. It outlives the recipe by a moment.
type weight struct {
	of     *lineage
	bytes  atomic.Int64
	pins   atomic.Pointer[[]*core.Future] // inputs that the recipe keeps by value, also where the program releases them
	record atomic.Pointer[Record]         // of one that is recorded
}

// give gives back, once, what the recipe has taken.
func (w *weight) give() {
	w.of.used.Add(-w.bytes.Swap(0))
	if pins := w.pins.Swap(nil); pins != nil {
		for _, c := range *pins {
			c.Unpin()
		}
	}
}

// collected is called when the collector has found the recipe: nobody can ask for the task here.
func (w *weight) collected() {
	w.give()
	if r := w.record.Load(); r != nil {
		(*r).Forget()
	}
	w.of.live.Add(-1)
}

// enter counts a recipe of size bytes, and cuts the oldest while there are too many.
func (l *lineage) enter(rec *recipe, size int64) {
	w := rec.weight
	w.bytes.Store(size)
	runtime.AddCleanup(rec, (*weight).collected, w)
	live := l.live.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order = append(l.order, weak.Make(rec))
	if int64(len(l.order)) > 2*live+64 {
		l.compactLocked()
	}
	for used := l.used.Add(size); used > l.max && len(l.order) > 0; used = l.used.Load() {
		if oldest := l.order[0].Value(); oldest != nil {
			oldest.cut(errBudget)
		}
		l.order = l.order[1:]
	}
}

// close lets go of what the recipes lead to: nothing runs again once the node has closed. What a cleanup is given stays until
// the recipe is collected, so that a closed node, to which records and inputs lead, would stay for ever.
func (l *lineage) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.order {
		if rec := p.Value(); rec != nil {
			rec.weight.give()
			rec.weight.record.Store(nil)
		}
	}
}

// compactLocked forgets the recipes that were collected; the caller holds mu.
func (l *lineage) compactLocked() {
	kept := l.order[:0]
	for _, w := range l.order {
		if w.Value() != nil {
			kept = append(kept, w)
		}
	}
	clear(l.order[len(kept):])
	l.order = kept
}
