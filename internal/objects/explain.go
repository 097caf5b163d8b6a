package objects

import (
	"context"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
)

// Explain adds to e what this node knows of the object that the value of c is, and which nodes the directory names.
func (o *Objects) Explain(ctx context.Context, c *core.Future, e *core.Explanation) {
	var oid raysys.TaskID
	at := core.Behind(c)
	switch s := core.SourceOf(at).(type) {
	case *objectSource:
		oid, e.Owner, e.Size = s.OID, s.Owner.Node, max(e.Size, s.Size)
	case *storedSource:
		oid, e.Owner = s.object.ID(), o.self().Node
		if err := s.Lost(); err != nil && e.Error == "" {
			e.State, e.Error = "lost", err.Error()
		}
	case *refs.RemoteSource: // the owner's future may have an object
		oid, e.Owner = objectID(s.ID(), s.Owner), s.Owner.Node
	case nil:
		if !at.Object() {
			return
		}
		oid, e.Owner = o.id(at), o.self().Node
	default:
		return
	}
	o.addCopies(ctx, oid, e)
}

// addCopies adds the nodes that have copies.
func (o *Objects) addCopies(ctx context.Context, oid raysys.TaskID, e *core.Explanation) {
	if o.dir == nil {
		return
	}
	a, err := o.dir.FindWait(ctx, registry.ObjectKey(oid))
	if err != nil {
		return // the rest is known all the same
	}
	for _, l := range a.Record.At {
		if n := l.Node.Node; n != e.Owner && !slices.Contains(e.Copies, n) {
			e.Copies = append(e.Copies, n)
		}
	}
}

// ExplainAll explains the objects of this node, of the ids for which wanted is true.
func (o *Objects) ExplainAll(ctx context.Context, wanted func(id raysys.TaskID) bool, limit int) (list []core.Explanation) {
	o.mu.Lock()
	var found []*core.Future
	for oid, w := range o.live {
		if c := w.Value(); c != nil && (wanted(oid) || wanted(c.ID())) && len(found) < limit {
			found = append(found, c)
		}
	}
	o.mu.Unlock()
	for _, c := range found {
		e := core.Explain(c, core.ExplainDepth)
		o.Explain(ctx, c, &e)
		list = append(list, e)
	}
	return list
}
