package grainengine

import "github.com/raysys/raysys/internal/core"

// Nodeless is a grain whose calls wait for a node with what no node has, or for the node of its bundle.
type Nodeless struct {
	Resources core.Resources
	Labels    map[string]string
	Group     string // the placement group whose bundle has no node yet; "" for a grain outside of groups
	Since     int64  // on the runtime's clock
}

// Nodeless lists them.
func (e *Engine) Nodeless() (list []Nodeless) {
	e.nodeless.Range(func(_, v any) bool {
		list = append(list, v.(Nodeless))
		return true
	})
	return list
}

// awaits notes that the calls of r wait for a node; since the first time if it has been noted before.
func (r *route) awaits() {
	r.mu.Lock()
	w := r.wantedLocked()
	r.nodeless = true
	r.mu.Unlock()
	e := r.kind.engine
	e.nodeless.LoadOrStore(r, Nodeless{Resources: w.Needs, Labels: w.Labels, Group: w.Bundle.Group, Since: e.cfg.Now()})
}

// awaitsNoMore undoes awaits.
func (r *route) awaitsNoMore() {
	r.mu.Lock()
	was := r.nodeless
	r.nodeless = false
	r.mu.Unlock()
	if was {
		r.kind.engine.nodeless.Delete(r)
	}
}
