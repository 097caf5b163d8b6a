package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/raysys/raysys/internal/core"
)

// Bundle is a part of a node's resources that a placement group holds, with devices of its own, as a Line from which the work
// of the group draws. What it has is out of the node's ledger until it is closed and the last of that work has returned.
type Bundle struct {
	Line
	name core.Bundle
	hold Hold
	then func() // after Close: called once nothing runs; guarded by the mutex of Line

	sought atomic.Bool // work has come that may be in any bundle of the group
}

// Evictable is Work that hears of the end of its bundle. It is called without a lock.
type Evictable interface {
	Work
	// Evict is called with why the bundle is gone; nil says that it is on another node. begun says whether the work has been
	// granted what it asked for: then it returns that as ever.
	Evict(cause error, begun bool)
}

// Close has the bundle take no more work, and evicts what waits or runs in it. Once what runs has returned, its resources are
// the node's again and then is called. It is called once.
func (b *Bundle) Close(cause error, then func()) {
	b.node.mu.Lock()
	if b.node.bundles[b.name] == b {
		delete(b.node.bundles, b.name)
	}
	b.node.mu.Unlock()
	b.mu.Lock()
	b.closed, b.then = true, then
	b.mu.Unlock()
	for _, w := range b.Remove(func(Work) bool { return true }) {
		evict(w, cause, false)
	}
	b.Evict(cause)
	b.freed()
}

// Evict evicts what runs in the bundle, which is closed.
func (b *Bundle) Evict(cause error) {
	b.mu.Lock()
	begun := slices.Collect(maps.Values(b.running))
	b.mu.Unlock()
	for _, w := range begun {
		evict(w, cause, true)
	}
}

func evict(w Work, cause error, begun bool) {
	if e, ok := w.(Evictable); ok {
		e.Evict(cause, begun)
	}
}

// freed is called when something of the bundle has become free.
func (b *Bundle) freed() {
	b.mu.Lock()
	then := b.then
	if !b.closed || len(b.running) > 0 {
		then = nil
	}
	if then != nil {
		b.then = nil
	}
	b.mu.Unlock()
	if then != nil {
		b.node.Return(&b.hold)
		then()
	}
	b.changed()
}

// Has reports whether a bundle is here.
func (l *Line) Has(name core.Bundle) bool { return len(l.named(name)) > 0 }

// named returns the bundles that name may mean.
func (l *Line) named(name core.Bundle) (list []*Bundle) {
	if name.Group == "" {
		return nil
	}
	name.Captures = false
	l.mu.Lock()
	defer l.mu.Unlock()
	if name.Index != core.AnyBundle {
		if b := l.bundles[name]; b != nil {
			list = append(list, b)
		}
		return list
	}
	for k, b := range l.bundles {
		if k.Group == name.Group {
			list = append(list, b)
		}
	}
	return list
}

// PushIn is Push for work that draws from a bundle, if n names one: of several from one where it is free, else where the least
// waits, of those whose devices are well. It is false when no such bundle is here; never says what those that are here have too little of.
func (l *Line) PushIn(n Need, w Work) (pushed bool, never Shortage) {
	if n.Bundle.Group == "" {
		l.Push(n, w)
		return true, never
	}
	best, least := (*Bundle)(nil), int32(0)
	for _, b := range l.named(n.Bundle) {
		if n.Roams() {
			b.sought.Store(true)
		}
		if ever := b.Ever(n); !ever.Empty() {
			never = ever
			continue
		}
		waits := b.Waits.Load()
		if b.HasNow(n) {
			waits = -1
		} else if !b.Could(n) {
			waits = math.MaxInt32
		}
		if best == nil || cmp.Or(cmp.Compare(waits, least), cmp.Compare(b.name.Index, best.name.Index)) < 0 {
			best, least = b, waits
		}
	}
	if best == nil {
		return false, never
	}
	if !best.push(n, w) {
		return false, Shortage{}
	}
	if n.Roams() {
		l.roam() // another may have got room since that was looked at
	}
	return true, Shortage{}
}

// push is Push; false where the bundle was closed meanwhile, and the work has to go elsewhere.
func (b *Bundle) push(n Need, w Work) bool {
	b.Push(n, w)
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	// A closed bundle grants nothing: the work is still there, unless Close has evicted it.
	return !closed || len(b.Remove(func(x Work) bool { return x == w })) == 0
}

// Idle reports whether nothing waits, here or in a bundle.
func (l *Line) Idle() bool {
	return l.Waits.Load() == 0 && !slices.ContainsFunc(l.all(), func(b *Bundle) bool { return b.Waits.Load() != 0 })
}

// Of is the line that h is of, which may be nil: this one, or that of a bundle.
func (l *Line) Of(h *Hold) *Line {
	if h != nil && h.line != nil {
		return h.line
	}
	return l
}

// Dropped is called when waiting work is over: what was kept for it goes to others.
func (l *Line) Dropped(n Need) {
	if n.Bundle.Group == "" {
		l.Serve()
		return
	}
	for _, b := range l.named(n.Bundle) {
		b.Serve()
	}
}

// All lists the names of the bundles.
func (l *Line) All() (names []core.Bundle) {
	for _, b := range l.all() {
		names = append(names, b.name)
	}
	slices.SortFunc(names, func(a, b core.Bundle) int { return cmp.Or(cmp.Compare(a.Group, b.Group), a.Index-b.Index) })
	return names
}

// all lists the bundles.
func (l *Line) all() (list []*Bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.bundles {
		list = append(list, b)
	}
	return list
}
